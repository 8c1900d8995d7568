#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace echelon {

/// Element types of buffers, collectives and checkpoints. The values are part of the checkpoint format: never
/// reorder.
enum class DType : std::uint8_t { kF32 = 1, kBF16 = 2, kF16 = 3, kF64 = 4, kI32 = 5, kI64 = 6, kU8 = 7 };

[[nodiscard]] constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kU8:
      return 1;
  }
  return 0;
}

/// "fp32", "bf16", ...: the spelling used in recipes, messages and manifests.
[[nodiscard]] constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::kF32:
      return "fp32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "fp16";
    case DType::kF64:
      return "fp64";
    case DType::kI32:
      return "int32";
    case DType::kI64:
      return "int64";
    case DType::kU8:
      return "uint8";
  }
  return "?";
}

/// What RMSNorm makes of its weight, and where it rounds to a type of two bytes.
enum class NormRounding : std::uint8_t {
  kTwice,        ///< the normalized value, and what its weight makes of it
  kOnce,         ///< only what the weight makes of it
  kOncePlusOne,  ///< as kOnce, with 1 + weight in place of the weight
};

}  // namespace echelon
