#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string>

#include "base/dtype.h"
#include "base/error.h"
#include "shard/layout.h"

/// Slices of a unit's buffer as bytes of a checkpoint.
namespace echelon {

/// The prefix of the name of a weight.
inline const std::string kModelPrefix = "model/";

[[nodiscard]] inline DType dtype_of(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kFloat) return DType::kF32;
  if (tensor.scalar_type() == at::kBFloat16) return DType::kBF16;
  throw Error(Code::kCheckpoint, "state of type ", c10::toString(tensor.scalar_type()),
              "; checkpoints hold fp32 and bf16");
}

/// The bytes of a piece of a slice in host memory.
[[nodiscard]] inline std::span<std::byte> bytes_of(const at::Tensor& slice, const SlicePiece& piece) {
  const std::size_t size = size_of(dtype_of(slice));
  return {static_cast<std::byte*>(slice.mutable_data_ptr()) + static_cast<std::size_t>(piece.at) * size,
          static_cast<std::size_t>(piece.end - piece.begin) * size};
}

}  // namespace echelon
