#pragma once
#include <cstdint>
#include <string>

namespace echelon::tool {

/// "5GB" -> 5000000000. Units: KB MB GB TB are powers of 1000, as Hugging Face counts; K M G T and KiB MiB
/// GiB TiB powers of 1024; none is bytes. Capitals do not matter. Throws Error(kUsage) naming `option` for
/// anything else, zero included.
[[nodiscard]] std::uint64_t parse_byte_size(const std::string& text, const std::string& option);

}  // namespace echelon::tool
