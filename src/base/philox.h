#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace echelon {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): four random words as
/// a pure function of (key, counter). No state, so any rank can produce any element without the ones before
/// it.
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(std::uint64_t key, std::uint64_t counter_low,
                                                      std::uint64_t counter_high);

/// A key for a named stream of the run's seed: streams of different names are independent.
[[nodiscard]] std::uint64_t stream_key(std::uint64_t seed, std::string_view name);

/// Standard normal value number `index` of the stream `key` (Box-Muller on two Philox words).
[[nodiscard]] float normal_at(std::uint64_t key, std::uint64_t index);

/// Uniform in [0, 1) with 24 random bits.
[[nodiscard]] float uniform_at(std::uint64_t key, std::uint64_t index);

}  // namespace echelon
