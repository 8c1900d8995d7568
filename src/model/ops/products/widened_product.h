#pragma once
#include <ATen/core/Tensor.h>

#include "model/kernels/product.h"

/// Products of two-byte elements on processors without instructions for them, where libraries need 10 to 30
/// times as long as for fp32: blocks are widened to fp32, multiplied, and the sums rounded once.
namespace echelon::ops {

/// True if products of this tensor's type should go by way of fp32 here.
[[nodiscard]] bool goes_by_fp32(const at::Tensor& matrix);

/// T: Bf16 or Fp16. Needs at most 3 MiB of scratch memory.
template <class T>
[[nodiscard]] const kernels::ProductKernel<T>& widened_product();

}  // namespace echelon::ops
