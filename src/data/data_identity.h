#pragma once
#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>

#include "base/checksum/crc32c.h"
#include "data/tokens/token_file.h"

namespace echelon {

/// A loader's fingerprint out of what its samples depend on; the first part tells kinds of loaders apart.
template <std::integral... Parts>
[[nodiscard]] std::uint32_t data_identity(Parts... parts) {
  const std::array all{static_cast<std::uint64_t>(parts)...};
  return crc32c(std::as_bytes(std::span(all)));
}

/// The same, of samples of `seq_len` tokens of a token file. `shuffle_seed`: none for file order.
[[nodiscard]] inline std::uint32_t data_identity(int kind, const TokenFile& file, std::int64_t seq_len,
                                                 std::optional<std::uint64_t> shuffle_seed) {
  return data_identity(kind, file.header().header_crc, seq_len, shuffle_seed.has_value(),
                       shuffle_seed.value_or(0));
}

}  // namespace echelon
