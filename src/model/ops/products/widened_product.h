#pragma once
#include <ATen/core/Tensor.h>

#include "model/kernels/product.h"

/// Products of two-byte elements on processors without instructions for them, where libraries need 10 to 30
/// times as long as for fp32: blocks are widened to fp32, multiplied, and the sums rounded once.
namespace echelon::ops {

/// True if products of this tensor's type should go by way of fp32 here.
[[nodiscard]] bool goes_by_fp32(const at::Tensor& matrix);

/// Floats of scratch memory that widened_product() needs, 3 MiB at most.
[[nodiscard]] std::int64_t widened_space(std::int64_t m, std::int64_t n, std::int64_t k);

/// T: Bf16 or Fp16. Threads split rows or columns of c.
template <class T>
void widened_product(const kernels::ProductOf<T>& product, float* space);

}  // namespace echelon::ops
