#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace echelon {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): four random words as
/// a pure function of (key, counter). No state, so any rank can produce any element without the ones before
/// it.
[[nodiscard, gnu::always_inline]] constexpr std::array<std::uint32_t, 4> philox4x32(
    std::uint64_t key, std::uint64_t counter_low, std::uint64_t counter_high) {
  std::array<std::uint32_t, 4> c{
      static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
      static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)};
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

/// A key for a named stream of the run's seed: streams of different names are independent.
[[nodiscard]] std::uint64_t stream_key(std::uint64_t seed, std::string_view name);

/// Standard normal value number `index` of the stream `key` (Box-Muller on two Philox words).
[[nodiscard]] float normal_at(std::uint64_t key, std::uint64_t index);

/// Uniform in [0, 1) with 24 random bits.
[[nodiscard]] float uniform_at(std::uint64_t key, std::uint64_t index);

}  // namespace echelon
