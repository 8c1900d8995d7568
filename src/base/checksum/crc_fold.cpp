#include "base/checksum/crc_fold.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace echelon {

#if defined(__x86_64__)
namespace {

#define ECHELON_FOLD_TARGET __attribute__((target("avx512f,avx512vl,avx512dq,vpclmulqdq,pclmul,sse4.1")))

// Moves each 128-bit lane over the bits that follow: the product of either half with x^distance mod P,
// added.
ECHELON_FOLD_TARGET inline __m512i moved(__m512i value, __m512i by) {
  return _mm512_xor_si512(_mm512_clmulepi64_epi128(value, by, 0x00),
                          _mm512_clmulepi64_epi128(value, by, 0x11));
}

ECHELON_FOLD_TARGET inline __m512i everywhere(const std::array<std::uint64_t, 2>& pair) {
  return _mm512_maskz_broadcast_i32x4(0xFFFF, _mm_loadu_si128(reinterpret_cast<const __m128i*>(pair.data())));
}

enum class Store { kNone, kCached, kStreamed };

template <Store kStore>
ECHELON_FOLD_TARGET inline __m512i take(const std::byte* from, std::byte* to) {
  const __m512i value = _mm512_loadu_si512(from);
  if constexpr (kStore == Store::kCached) _mm512_storeu_si512(to, value);
  if constexpr (kStore == Store::kStreamed) _mm512_stream_si512(reinterpret_cast<__m512i*>(to), value);
  return value;
}

ECHELON_FOLD_TARGET inline std::array<std::byte, 16> to_one(__m512i value, const FoldConstants& constants) {
  const __m128i by = _mm_loadu_si128(reinterpret_cast<const __m128i*>(constants.by_128.data()));
  const auto step = [by](__m128i sum, __m128i next) ECHELON_FOLD_TARGET {
    return _mm_xor_si128(
        _mm_xor_si128(_mm_clmulepi64_si128(sum, by, 0x00), _mm_clmulepi64_si128(sum, by, 0x11)), next);
  };
  // The masked forms, because GCC 12 warns about its own plain ones.
  __m128i sum = _mm512_maskz_extracti32x4_epi32(0xF, value, 0);
  sum = step(sum, _mm512_maskz_extracti32x4_epi32(0xF, value, 1));
  sum = step(sum, _mm512_maskz_extracti32x4_epi32(0xF, value, 2));
  sum = step(sum, _mm512_maskz_extracti32x4_epi32(0xF, value, 3));
  std::array<std::byte, 16> bytes{};
  std::memcpy(bytes.data(), &sum, sizeof(sum));
  return bytes;
}

template <Store kStore>
ECHELON_FOLD_TARGET std::array<std::byte, 16> fold_all(const FoldConstants& constants, std::uint64_t crc,
                                                       const std::byte* from, std::byte* to,
                                                       std::size_t size) {
  const auto put = [to](std::size_t at) { return kStore == Store::kNone ? nullptr : to + at; };
  const __m512i first = _mm512_zextsi128_si512(_mm_cvtsi64_si128(static_cast<long long>(crc)));
  // Four accumulators hide the latency of the carry-less product.
  __m512i a = _mm512_xor_si512(take<kStore>(from, put(0)), first);
  __m512i b = take<kStore>(from + 64, put(64));
  __m512i c = take<kStore>(from + 128, put(128));
  __m512i d = take<kStore>(from + 192, put(192));
  const __m512i by_2048 = everywhere(constants.by_2048);
  std::size_t at = 256;
  for (; at + 256 <= size; at += 256) {
    a = _mm512_xor_si512(moved(a, by_2048), take<kStore>(from + at, put(at)));
    b = _mm512_xor_si512(moved(b, by_2048), take<kStore>(from + at + 64, put(at + 64)));
    c = _mm512_xor_si512(moved(c, by_2048), take<kStore>(from + at + 128, put(at + 128)));
    d = _mm512_xor_si512(moved(d, by_2048), take<kStore>(from + at + 192, put(at + 192)));
  }
  const __m512i by_512 = everywhere(constants.by_512);
  b = _mm512_xor_si512(moved(a, by_512), b);
  c = _mm512_xor_si512(moved(b, by_512), c);
  d = _mm512_xor_si512(moved(c, by_512), d);
  for (; at < size; at += 64) d = _mm512_xor_si512(moved(d, by_512), take<kStore>(from + at, put(at)));
  // Streaming stores are weakly ordered: another thread may read the copy next.
  if constexpr (kStore == Store::kStreamed) _mm_sfence();
  return to_one(d, constants);
}

}  // namespace

bool can_fold() {
  static const bool found =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0 &&
      __builtin_cpu_supports("pclmul") != 0;
  return found;
}

std::array<std::byte, 16> fold(const FoldConstants& constants, std::uint64_t crc, const std::byte* from,
                               std::byte* to, std::size_t size) {
  if (to == nullptr) return fold_all<Store::kNone>(constants, crc, from, to, size);
  // The copy goes to disk and is not read again soon: streaming stores keep it out of the cache, as memcpy
  // does for large sizes. They need aligned addresses.
  const bool aligned = reinterpret_cast<std::uintptr_t>(to) % 64 == 0 && size >= 4096;
  return aligned ? fold_all<Store::kStreamed>(constants, crc, from, to, size)
                 : fold_all<Store::kCached>(constants, crc, from, to, size);
}

#else

bool can_fold() {
  return false;
}
std::array<std::byte, 16> fold(const FoldConstants&, std::uint64_t, const std::byte*, std::byte*,
                               std::size_t) {
  return {};
}

#endif

}  // namespace echelon
