#include "base/checksum/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#include "base/checksum/crc_field.h"
#include "base/checksum/crc_fold.h"

namespace echelon {
namespace {

// All registers below are "raw": without the inversion at both ends.
std::uint64_t load(const std::byte* from) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

#if defined(__x86_64__)

// The crc32 instruction has a latency of three cycles and a throughput of one per cycle: three independent
// lanes of kLane bytes keep it busy. To join lanes, a register is advanced over the zeros that stand for the
// later ones.
constexpr std::size_t kLane = 1024;
constexpr std::array<std::uint32_t, 2> kLaneShift{Crc32cField::zeros(kLane), Crc32cField::zeros(2 * kLane)};

using ShiftTable = std::array<std::array<std::uint32_t, 256>, 4>;
constexpr ShiftTable make_shift(std::uint32_t shift) {
  ShiftTable table{};
  for (std::uint32_t part = 0; part < 4; ++part) {
    // Linear in the register: every entry is the sum of its bits' entries.
    for (std::uint32_t bit = 0; bit < 8; ++bit) {
      const std::uint32_t image = Crc32cField::multiply(shift, 1U << (8 * part + bit));
      for (std::uint32_t low = 0; low < (1U << bit); ++low)
        table[part][(1U << bit) + low] = table[part][low] ^ image;
    }
  }
  return table;
}
constexpr ShiftTable kShift1 = make_shift(kLaneShift[0]);
constexpr ShiftTable kShift2 = make_shift(kLaneShift[1]);

std::uint32_t shift(const ShiftTable& table, std::uint32_t crc) {
  return table[0][crc & 0xFFU] ^ table[1][(crc >> 8) & 0xFFU] ^ table[2][(crc >> 16) & 0xFFU] ^
         table[3][crc >> 24];
}

template <bool kCopy>
inline std::uint64_t take(const std::byte* from, std::byte* to) {
  const std::uint64_t word = load(from);
  if constexpr (kCopy) std::memcpy(to, &word, sizeof(word));
  return word;
}

template <bool kCopy>
__attribute__((target("sse4.2"))) std::uint32_t advance_sse42(std::uint32_t crc, const std::byte* from,
                                                              std::byte* to, std::size_t size) {
  std::size_t at = 0;
  for (; size - at >= 3 * kLane; at += 3 * kLane) {
    std::uint64_t a = crc;
    std::uint64_t b = 0;
    std::uint64_t c = 0;
    for (std::size_t i = at; i < at + kLane; i += 8) {
      a = _mm_crc32_u64(a, take<kCopy>(from + i, to + i));
      b = _mm_crc32_u64(b, take<kCopy>(from + i + kLane, to + i + kLane));
      c = _mm_crc32_u64(c, take<kCopy>(from + i + 2 * kLane, to + i + 2 * kLane));
    }
    crc = shift(kShift2, static_cast<std::uint32_t>(a)) ^ shift(kShift1, static_cast<std::uint32_t>(b)) ^
          static_cast<std::uint32_t>(c);
  }
  std::uint64_t wide = crc;
  for (; size - at >= 8; at += 8) wide = _mm_crc32_u64(wide, take<kCopy>(from + at, to + at));
  crc = static_cast<std::uint32_t>(wide);
  for (; at < size; ++at) {
    if constexpr (kCopy) to[at] = from[at];
    crc = _mm_crc32_u8(crc, std::to_integer<unsigned char>(from[at]));
  }
  return crc;
}

bool has_sse42() {
  static const bool found = __builtin_cpu_supports("sse4.2") != 0;
  return found;
}

constexpr FoldConstants kFold = make_fold_constants<Crc32cField>();

/// The raw register after `from`, copied to `to` on the way unless that is null.
template <bool kCopy>
std::uint32_t advance_fast(std::uint32_t crc, const std::byte* from, std::byte* to, std::size_t size) {
  const std::size_t folded = size / 64 * 64;
  if (folded >= kFoldMinBytes && can_fold()) {
    const auto rest = fold(kFold, crc, from, to, folded);
    // The 16 folded bytes already contain the start value, so their CRC begins at zero.
    crc = advance_sse42<false>(0, rest.data(), nullptr, rest.size());
    from += folded;
    if constexpr (kCopy) to += folded;
    size -= folded;
  }
  return advance_sse42<kCopy>(crc, from, to, size);
}

#endif

}  // namespace

std::uint32_t crc32c_portable(std::span<const std::byte> bytes, std::uint32_t crc) {
  return ~CrcTables<Crc32cField>::advance(~crc, bytes.data(), bytes.size());
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
#if defined(__x86_64__)
  if (has_sse42()) return ~advance_fast<false>(~crc, bytes.data(), nullptr, bytes.size());
#endif
  return crc32c_portable(bytes, crc);
}

std::uint32_t crc32c_copy(std::span<std::byte> to, std::span<const std::byte> from, std::uint32_t crc) {
#if defined(__x86_64__)
  if (has_sse42()) return ~advance_fast<true>(~crc, from.data(), to.data(), from.size());
#endif
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
  return crc32c_portable(from, crc);
}

std::uint32_t crc32c_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t length_b) {
  return Crc32cField::multiply(Crc32cField::zeros(length_b), crc_a) ^ crc_b;
}

}  // namespace echelon
