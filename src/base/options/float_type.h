#pragma once
#include <cstdint>
#include <string_view>

#include "base/options/choice.h"

namespace echelon {

/// A floating point type as recipes name it.
enum class FloatType : std::uint8_t {
  kUnset,  ///< left to another key
  kFp32,
  kBf16,
  kFp16,
};
template <>
inline constexpr std::array<std::string_view, 4> kWords<FloatType>{"unset", "fp32", "bf16", "fp16"};

}  // namespace echelon
