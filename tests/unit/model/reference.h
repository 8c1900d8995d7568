#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "base/str.h"
#include "model/kernels/kernels.h"

/// What the kernel tests compare with: plain loops in double precision, and the two element types.
namespace echelon::test {

inline float to_float(float value) {
  return value;
}
inline float to_float(kernels::Bf16 value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}
inline void assign(float& to, double value) {
  to = static_cast<float>(value);
}
/// Nearest bf16, ties to even, from the definition: the neighbor below, the one above, and which is nearer.
inline void assign(kernels::Bf16& to, double value) {
  const auto single = static_cast<float>(value);
  const auto below = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(single) >> 16);  // toward zero
  if (std::isnan(single) || std::isinf(single)) {
    to.bits = std::isnan(single) ? 0x7FC0 : below;
    return;
  }
  const auto above = static_cast<std::uint16_t>(below + 1);
  const double to_below = std::abs(value - static_cast<double>(to_float(kernels::Bf16{below})));
  const double to_above = std::abs(static_cast<double>(to_float(kernels::Bf16{above})) - value);
  const bool up = to_above < to_below || (to_above == to_below && (below & 1U) != 0);
  to.bits = up ? above : below;
}

/// A type of eight bits by its definition: a sign, exponent bits, mantissa bits.
struct Fp8Format {
  int mantissa;
  int bias;
  double largest;
};
inline constexpr Fp8Format kE4m3{3, 7, 448};
inline constexpr Fp8Format kE5m2{2, 15, 57344};

/// The nearest value of the format, ties to even; beyond the largest, the largest.
inline double nearest(const Fp8Format& format, double value) {
  const double magnitude = std::min(std::abs(value), format.largest);
  const int exponent = magnitude > 0 ? std::max(std::ilogb(magnitude), 1 - format.bias) : 1 - format.bias;
  const double unit = std::ldexp(1.0, exponent - format.mantissa);
  return std::copysign(std::min(std::nearbyint(magnitude / unit) * unit, format.largest), value);
}

/// How far a correctly computed, once rounded value may be from the exact one, relative to its magnitude.
template <class T>
constexpr double kRounding = 1e-6;
template <>
inline constexpr double kRounding<kernels::Bf16> = 1.0 / 256;

template <class T>
std::vector<T> random_values(std::int64_t n, unsigned seed, double deviation = 1.0) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0.0, deviation);
  std::vector<T> values(static_cast<std::size_t>(n));
  for (T& value : values) assign(value, normal(random));
  return values;
}

template <class T>
std::vector<double> doubles(const std::vector<T>& values) {
  return mapped(values, [](const T& value) { return static_cast<double>(to_float(value)); });
}

/// Every element within `relative` of its own magnitude plus `relative` of the largest (sums cancel).
template <class T>
void expect_close(const std::vector<T>& actual, const std::vector<double>& expected,
                  double relative = 2 * kRounding<T>) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const auto value = static_cast<double>(to_float(actual[i]));
    ASSERT_NEAR(value, expected[i], relative * (std::abs(expected[i]) + 0.1 * largest) + 1e-30)
        << "element " << i;
  }
}

}  // namespace echelon::test
