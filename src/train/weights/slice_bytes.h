#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string>

#include "base/dtype.h"
#include "base/error.h"

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

/// The bytes of a tensor in host memory, whose elements lie one after another.
[[nodiscard]] inline std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

}  // namespace echelon
