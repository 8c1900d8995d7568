#pragma once
#include <c10/core/ScalarType.h>

#include <optional>
#include <utility>

#include "base/dtype.h"
#include "base/error.h"

namespace echelon {

/// The element types of buffers, by Echelon's and by libtorch's names.
inline constexpr std::pair<DType, at::ScalarType> kElementTypes[] = {
    {DType::kF32, at::kFloat},  {DType::kBF16, at::kBFloat16}, {DType::kF16, at::kHalf},
    {DType::kF64, at::kDouble}, {DType::kI32, at::kInt},       {DType::kI64, at::kLong},
    {DType::kU8, at::kByte}};

/// Returns our name of a type of libtorch, `otherwise` for one that has none. Without `otherwise` such a type
/// is an internal error.
[[nodiscard]] inline DType dtype_of(at::ScalarType type, std::optional<DType> otherwise = {}) {
  for (const auto& [ours, theirs] : kElementTypes) {
    if (theirs == type) return ours;
  }
  if (otherwise) return *otherwise;
  throw Error::internal("a buffer of type ", c10::toString(type));
}

[[nodiscard]] inline at::ScalarType scalar_type_of(DType type) {
  for (const auto& [ours, theirs] : kElementTypes) {
    if (ours == type) return theirs;
  }
  throw Error::internal("a tensor of type ", name_of(type));
}

}  // namespace echelon
