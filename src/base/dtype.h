#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

namespace echelon {

/// Element types of buffers, collectives and checkpoints. The values are part of the checkpoint format: never
/// reorder.
enum class DType : std::uint8_t { kF32 = 1, kBF16 = 2, kF16 = 3, kF64 = 4, kI32 = 5, kI64 = 6, kU8 = 7 };

/// The types' names and sizes, by value.
inline constexpr std::pair<std::string_view, std::size_t> kDTypes[] = {
    {"?", 0}, {"fp32", 4}, {"bf16", 2}, {"fp16", 2}, {"fp64", 8}, {"int32", 4}, {"int64", 8}, {"uint8", 1}};

[[nodiscard]] constexpr const auto& facts_of(DType type) {
  const auto value = static_cast<std::size_t>(type);
  return kDTypes[value < std::size(kDTypes) ? value : 0];
}

[[nodiscard]] constexpr std::size_t size_of(DType type) {
  return facts_of(type).second;
}

/// "fp32", "bf16", ...: the spelling used in recipes, messages and manifests.
[[nodiscard]] constexpr std::string_view name_of(DType type) {
  return facts_of(type).first;
}

/// What RMSNorm makes of its weight, and where it rounds to a type of two bytes.
enum class NormRounding : std::uint8_t {
  kTwice,        ///< the normalized value, and what its weight makes of it
  kOnce,         ///< only what the weight makes of it
  kOncePlusOne,  ///< as kOnce, with 1 + weight in place of the weight
};

}  // namespace echelon
