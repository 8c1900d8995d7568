#pragma once
#include <bit>
#include <cstdint>

namespace echelon {

/// IEEE 754 half precision (fp16) from and to single, to nearest even, without branches so that loops over
/// them vectorise (the magic-number method of F. Giesen).
[[nodiscard]] inline float half_to_float(std::uint16_t half) {
  const std::uint32_t shifted = (half & 0x7FFFU) << 13;
  // Exponents move by 112; the product also normalises subnormals.
  const float scaled = std::bit_cast<float>(shifted) * std::bit_cast<float>(0x77800000U);
  const std::uint32_t special = shifted >= 0x0F800000U ? 0x7F800000U : 0U;  // infinity, NaN
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | (half & 0x8000U) << 16);
}

[[nodiscard]] inline std::uint16_t float_to_half(float value) {
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
