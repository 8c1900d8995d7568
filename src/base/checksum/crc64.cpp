#include "base/checksum/crc64.h"

#include <array>
#include <cstring>

#include "base/checksum/crc_field.h"
#include "base/checksum/crc_fold.h"

namespace echelon {
namespace {

using Table = std::array<std::array<std::uint64_t, 256>, 8>;

// kTables[k][b]: the register after byte b and k zero bytes; eight look-ups advance it by eight bytes
// ("slicing by 8", Kounavis and Berry, Intel, 2005).
constexpr Table make_tables() {
  Table tables{};
  for (std::uint64_t byte = 0; byte < 256; ++byte) {
    std::uint64_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = Crc64Field::times_x(crc);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint64_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFFU];
    }
  }
  return tables;
}
constexpr Table kTables = make_tables();
constexpr FoldConstants kFold = make_fold_constants<Crc64Field>();

/// Registers here are raw: without the inversion at both ends.
std::uint64_t advance(std::uint64_t crc, std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  std::size_t size = bytes.size();
  for (; size >= 8; size -= 8, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xFFU];
  }
  for (; size != 0; --size, ++at) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<std::uint64_t>(*at)) & 0xFFU];
  }
  return crc;
}

}  // namespace

std::uint64_t crc64_portable(std::span<const std::byte> bytes, std::uint64_t crc) {
  return ~advance(~crc, bytes);
}

std::uint64_t crc64(std::span<const std::byte> bytes, std::uint64_t crc) {
  const std::size_t folded = bytes.size() / 64 * 64;
  if (folded < kFoldMinBytes || !can_fold()) return crc64_portable(bytes, crc);
  const std::uint64_t bulk = advance(0, fold(kFold, ~crc, bytes.data(), nullptr, folded));
  return ~advance(bulk, bytes.subspan(folded));
}

std::uint64_t crc64_combine(std::uint64_t crc_a, std::uint64_t crc_b, std::uint64_t length_b) {
  return Crc64Field::multiply(Crc64Field::zeros(length_b), crc_a) ^ crc_b;
}

}  // namespace echelon
