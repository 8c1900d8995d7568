#pragma once
#include <bit>
#include <cstdint>

#include "base/half.h"
#include "model/kernels/tables.h"

/// Single elements, for kernels_impl.cpp and as often compiled.
namespace echelon::kernels::ECHELON_ISA {

inline float load(float v) {
  return v;
}
inline float load(Bf16 v) {
  return bf16_to_float(v.bits);
}
inline float load(Fp16 v) {
  return half_to_float(v.bits);
}
inline void store(Fp16& to, float v) {
  to.bits = float_to_half(v);
}
inline void store(float& to, float v) {
  to = v;
}
inline void store(Bf16& to, float v) {
  to.bits = float_to_bf16(v);
}

/// A barrier against fast-math: the compiler cannot reassociate across it. GCC's __builtin_assoc_barrier does
/// not survive vectorization of a loop.
inline float as_written(float v) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) ^ kNoBits);
}

/// e^x within 2 units in the last place, written so that the compiler can vectorize it (a call to expf cannot
/// be without finite-math): range reduction by powers of two, degree-6 polynomial (Cephes, S. Moshier). NaN
/// stays NaN; above 88.3 the result is infinity, and where it would be subnormal it is zero.
inline float exponential(float x) {
  const float clamped = x < -88.0F ? -88.0F : (x > 89.0F ? 89.0F : x);
  // Added to 1.5 * 2^23, a small number's nearest integer is in the sum's low bits.
  constexpr float kShift = 12582912.0F;
  const auto whole = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(clamped * 1.44269504F + kShift) -
                                               std::bit_cast<std::uint32_t>(kShift));
  const auto n = static_cast<float>(whole);
  // ln 2 in two pieces: n times the first is exact, and only so is the difference.
  const float r = as_written(clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  // 2^n from its bits: the ends of the clamped range, -127 and 128, are zero and infinity.
  return p * std::bit_cast<float>((whole + 127) << 23);
}

inline float sigmoid(float x) {
  return 1.0F / (1.0F + exponential(-x));
}

/// An activation's value and its slope.
struct Activated {
  float value;
  float slope;
};

struct Silu {
  static Activated at(float x) {
    const float s = sigmoid(x);
    return {x * s, s * (1.0F + x * (1.0F - s))};
  }
};

/// The approximation with tanh (Hendrycks & Gimpel), of which 0.5 * (1 + tanh(u)) is sigmoid(2 u).
struct GeluTanh {
  static Activated at(float x) {
    constexpr float kTwice = 1.5957691216057308F;  // 2 * sqrt(2 / pi)
    const float s = sigmoid(kTwice * (x + 0.044715F * x * x * x));
    return {x * s, s + x * s * (1.0F - s) * kTwice * (1.0F + 0.134145F * x * x)};
  }
};

}  // namespace echelon::kernels::ECHELON_ISA
