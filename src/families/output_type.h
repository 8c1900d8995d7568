#pragma once
#include <cstdint>
#include <string_view>

#include "base/dtype.h"
#include "base/options/choice.h"

namespace echelon::families {

/// The output of `consolidate`.
enum class OutputFormat : std::uint8_t {
  kHdf5,         ///< one file
  kSafetensors,  ///< a folder that transformers opens
};

/// The type that floating-point tensors are written in.
enum class OutputType : std::uint8_t { kSame, kFp32, kBf16 };

/// `stored` is of floating point.
[[nodiscard]] constexpr DType converted(DType stored, OutputType wanted) {
  if (wanted == OutputType::kSame) return stored;
  return wanted == OutputType::kBf16 ? DType::kBF16 : DType::kF32;
}

}  // namespace echelon::families

namespace echelon {
template <>
inline constexpr std::array<std::string_view, 2> kWords<families::OutputFormat>{"hdf5", "safetensors"};
template <>
inline constexpr std::array<std::string_view, 3> kWords<families::OutputType>{"same", "fp32", "bf16"};
}  // namespace echelon
