#pragma once
#include <ATen/core/Tensor.h>

namespace echelon::ops {

/// a [m, k] * b [k, n] -> [m, n]. Operands may be transposed views. bf16 on a CPU with bf16 dot products runs
/// kernels::product_kernel(), but where the processor has AMX too, large products and everything else at::mm.
/// bf16 and fp16 on a CPU without instructions for them go by way of fp32 (widened_product.h).
/// The result of product_kernel() does not depend on the number of threads; that of at::mm may.
[[nodiscard]] at::Tensor product(const at::Tensor& a, const at::Tensor& b);

/// Writes the product into `out` (rows or columns along memory), or with `accumulate` adds it.
void product_into(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool accumulate);

/// at::matmul, with gradients, of a [..., m, k] and b [..., k, n] of equal leading dimensions, or b [k, n].
[[nodiscard]] at::Tensor matmul(const at::Tensor& a, const at::Tensor& b);

}  // namespace echelon::ops
