#include "checkpoints_tool/element_difference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/half.h"

namespace echelon::tool {
namespace {

/// Maps the bits of a float to an integer that increases with its value, so that differences count
/// representable numbers (ulp). Both zeros map to the same integer.
template <class Bits>
std::make_signed_t<Bits> rank_of(Bits bits) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  using Rank = std::make_signed_t<Bits>;
  return (bits & kSign) != 0 ? static_cast<Rank>(-static_cast<Rank>(bits & ~kSign)) : static_cast<Rank>(bits);
}

template <class Integer>
std::uint64_t distance(Integer a, Integer b) {
  const auto high = static_cast<std::uint64_t>(static_cast<std::int64_t>(std::max(a, b)));
  return high - static_cast<std::uint64_t>(static_cast<std::int64_t>(std::min(a, b)));
}

template <class Bits>
Bits load(std::span<const std::byte> bytes, std::size_t i) {
  Bits bits;
  std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
  return bits;
}

template <class Bits, class Value>
void floats(std::span<const std::byte> a, std::span<const std::byte> b, Value value,
            ElementDifference& difference) {
  for (std::size_t i = 0; i < a.size() / sizeof(Bits); ++i) {
    const Bits x = load<Bits>(a, i);
    const Bits y = load<Bits>(b, i);
    if (x == y) continue;
    ++difference.elements;
    const double abs = std::abs(static_cast<double>(value(x)) - static_cast<double>(value(y)));
    if (!std::isfinite(abs) && !(std::isfinite(value(x)) && std::isfinite(value(y)))) {
      ++difference.incomparable;
      continue;
    }
    difference.max_abs = std::max(difference.max_abs, abs);
    difference.max_ulp = std::max(difference.max_ulp, distance(rank_of(x), rank_of(y)));
  }
}

template <class Integer>
void integers(std::span<const std::byte> a, std::span<const std::byte> b, ElementDifference& difference) {
  for (std::size_t i = 0; i < a.size() / sizeof(Integer); ++i) {
    const auto x = load<Integer>(a, i);
    const auto y = load<Integer>(b, i);
    if (x == y) continue;
    ++difference.elements;
    difference.max_ulp = std::max(difference.max_ulp, distance(x, y));
    difference.max_abs = std::max(difference.max_abs, static_cast<double>(distance(x, y)));
  }
}

}  // namespace

void compare_elements(std::span<const std::byte> a, std::span<const std::byte> b, DType dtype,
                      ElementDifference& difference) {
  switch (dtype) {
    case DType::kF32:
      return floats<std::uint32_t>(
          a, b, [](std::uint32_t x) { return std::bit_cast<float>(x); }, difference);
    case DType::kBF16:
      return floats<std::uint16_t>(
          a, b, [](std::uint16_t x) { return bf16_to_float(x); }, difference);
    case DType::kF16:
      return floats<std::uint16_t>(
          a, b, [](std::uint16_t x) { return half_to_float(x); }, difference);
    case DType::kF64:
      return floats<std::uint64_t>(
          a, b, [](std::uint64_t x) { return std::bit_cast<double>(x); }, difference);
    case DType::kI32: return integers<std::int32_t>(a, b, difference);
    case DType::kI64: return integers<std::int64_t>(a, b, difference);
    case DType::kU8: return integers<std::uint8_t>(a, b, difference);
  }
}

}  // namespace echelon::tool
