#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

/// The bulk of a CRC with carry-less products of 512 bits, for x86 processors that have them (VPCLMULQDQ):
/// as fast as memory. Used by crc32c.cpp and crc64.cpp.
namespace echelon {

/// The factors for the first and the last eight bytes of a 16-byte register, for each distance.
struct FoldConstants {
  std::array<std::uint64_t, 2> by_2048;
  std::array<std::uint64_t, 2> by_512;
  std::array<std::uint64_t, 2> by_128;
};

template <class Field>
constexpr FoldConstants make_fold_constants() {
  constexpr auto pair = [](std::uint64_t distance) {
    return std::array{Field::fold_constant(distance + 64), Field::fold_constant(distance)};
  };
  return {pair(2048), pair(512), pair(128)};
}

inline constexpr std::size_t kFoldMinBytes = 256;

/// Can this processor fold?
[[nodiscard]] bool can_fold();

/// Folds `from` into 16 bytes with the same CRC, from a zero register. `from` has kFoldMinBytes or more, a
/// multiple of 64; `crc`, a raw register, is added to its front. Copies the bytes to `to` unless it is null.
[[nodiscard]] std::array<std::byte, 16> fold(const FoldConstants& constants, std::uint64_t crc,
                                             const std::byte* from, std::byte* to, std::size_t size);

}  // namespace echelon
