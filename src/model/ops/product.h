#pragma once
#include <ATen/core/Tensor.h>

namespace echelon::ops {

/// a [m, k] * b [k, n] -> [m, n]. Operands may be transposed views. bf16 on a CPU with bf16 dot products runs
/// kernels::product_kernel(), but where the processor has AMX too, large products and everything else at::mm.
/// The result of product_kernel() does not depend on the number of threads; that of at::mm may.
[[nodiscard]] at::Tensor product(const at::Tensor& a, const at::Tensor& b);

/// The same into `out` (rows or columns along memory), or with `accumulate` added to it.
void product_into(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool accumulate);

}  // namespace echelon::ops
