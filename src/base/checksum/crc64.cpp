#include "base/checksum/crc64.h"

#include "base/checksum/crc_field.h"
#include "base/checksum/crc_fold.h"

namespace echelon {
namespace {

using Tables = CrcTables<Crc64Field>;
constexpr FoldConstants kFold = make_fold_constants<Crc64Field>();

}  // namespace

std::uint64_t crc64_portable(std::span<const std::byte> bytes, std::uint64_t crc) {
  return ~Tables::advance(~crc, bytes.data(), bytes.size());
}

std::uint64_t crc64(std::span<const std::byte> bytes, std::uint64_t crc) {
  const std::size_t folded = bytes.size() / 64 * 64;
  if (folded < kFoldMinBytes || !can_fold()) return crc64_portable(bytes, crc);
  const auto rest = fold(kFold, ~crc, bytes.data(), nullptr, folded);
  const std::uint64_t bulk = Tables::advance(0, rest.data(), rest.size());
  return ~Tables::advance(bulk, bytes.data() + folded, bytes.size() - folded);
}

std::uint64_t crc64_combine(std::uint64_t crc_a, std::uint64_t crc_b, std::uint64_t length_b) {
  return Crc64Field::multiply(Crc64Field::zeros(length_b), crc_a) ^ crc_b;
}

}  // namespace echelon
