#include "families/convert.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/half.h"

namespace echelon::families {
namespace {

// Rounds to odd, so that rounding the float to bf16 gives the same as rounding the double directly (Boldo
// and Melquiond, "When double rounding is odd", 2005).
float narrow_for_bf16(double value) {
  const auto nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value || std::isinf(nearest)) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if ((bits & 1U) == 0) bits += std::abs(static_cast<double>(nearest)) > std::abs(value) ? ~0U : 1U;
  return std::bit_cast<float>(bits);
}

template <class From, class To, class Function>
void each(std::span<const std::byte> from, std::span<std::byte> to, Function function) {
  const std::size_t count = from.size() / sizeof(From);
  for (std::size_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from.data() + i * sizeof(From), sizeof(From));
    const To result = function(value);
    std::memcpy(to.data() + i * sizeof(To), &result, sizeof(To));
  }
}

void to_fp32(std::span<const std::byte> from, DType type, std::span<std::byte> to) {
  if (type == DType::kBF16)
    each<std::uint16_t, float>(from, to, [](std::uint16_t v) { return bf16_to_float(v); });
  if (type == DType::kF16)
    each<std::uint16_t, float>(from, to, [](std::uint16_t v) { return half_to_float(v); });
  if (type == DType::kF64) each<double, float>(from, to, [](double v) { return static_cast<float>(v); });
}

void to_bf16(std::span<const std::byte> from, DType type, std::span<std::byte> to) {
  if (type == DType::kF32) each<float, std::uint16_t>(from, to, [](float v) { return float_to_bf16(v); });
  if (type == DType::kF16)
    each<std::uint16_t, std::uint16_t>(from, to,
                                       [](std::uint16_t v) { return float_to_bf16(half_to_float(v)); });
  if (type == DType::kF64)
    each<double, std::uint16_t>(from, to, [](double v) { return float_to_bf16(narrow_for_bf16(v)); });
}

}  // namespace

bool is_floating(DType type) {
  return type == DType::kF32 || type == DType::kBF16 || type == DType::kF16 || type == DType::kF64;
}

void convert(std::span<const std::byte> from, DType from_type, std::span<std::byte> to, DType to_type) {
  if (from_type == to_type) {
    if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
  } else if (is_floating(from_type) && to_type == DType::kF32) {
    to_fp32(from, from_type, to);
  } else if (is_floating(from_type) && to_type == DType::kBF16) {
    to_bf16(from, from_type, to);
  } else {
    throw Error::internal("a conversion of ", name_of(from_type), " to ", name_of(to_type));
  }
}

}  // namespace echelon::families
