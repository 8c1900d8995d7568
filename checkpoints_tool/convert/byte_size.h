#pragma once
#include <cstdint>
#include <string>

namespace echelon::tool {

/// "5GB" -> 5000000000: as read_bytes() has it. Letters alone (256M) are powers of 1024, a number alone is
/// bytes. Throws Error(kUsage) naming `option` for anything else, zero included.
[[nodiscard]] std::uint64_t parse_byte_size(const std::string& text, const std::string& option);

}  // namespace echelon::tool
