#pragma once
#include <bit>
#include <cstdint>

namespace echelon {

/// Conversions between 16-bit floats and single precision, without branches so that loops over them
/// vectorize. Always inlined: an out-of-line copy compiled for one instruction set could be linked into code
/// for another. Therefore no pointers to them.

/// bfloat16: the upper half of a float.
[[nodiscard, gnu::always_inline]] inline float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

/// Rounds to nearest even. A NaN, which must not be rounded up to infinity, becomes the NaN that PyTorch
/// uses.
[[nodiscard, gnu::always_inline]] inline std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? 0x7FC0U : rounded);
}

/// IEEE 754 half precision (fp16), to nearest even (the magic-number method of F. Giesen).
[[nodiscard, gnu::always_inline]] inline float half_to_float(std::uint16_t half) {
  const std::uint32_t shifted = (half & 0x7FFFU) << 13;
  // Exponents move by 112; the product also normalizes subnormals.
  const float scaled = std::bit_cast<float>(shifted) * std::bit_cast<float>(0x77800000U);
  const std::uint32_t special = shifted >= 0x0F800000U ? 0x7F800000U : 0U;  // infinity, NaN
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | (half & 0x8000U) << 16);
}

[[nodiscard, gnu::always_inline]] inline std::uint16_t float_to_half(float value) {
  const auto all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t bits = all & 0x7FFFFFFFU;
  const std::uint32_t special = bits > 0x7F800000U ? 0x7E00U : 0x7C00U;
  // Added to one half, a small number's bits land where a subnormal's belong, rounded.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) + 0.5F) - 0x3F000000U;
  const std::uint32_t normal = (bits + 0xC8000FFFU + ((bits >> 13) & 1U)) >> 13;
  const std::uint32_t finite = bits < 0x38800000U ? subnormal : normal;
  return static_cast<std::uint16_t>((bits >= 0x47800000U ? special : finite) | (all & 0x80000000U) >> 16);
}

}  // namespace echelon
