#pragma once
#include <ATen/core/Tensor.h>

#include "model/kernels/kernels.h"

namespace echelon::ops {

/// causal_attention() (ops.h) for tensors on a GPU: the rotary kernels around one of PyTorch's fused
/// attentions. Throws as attention_backend() does.
[[nodiscard]] at::Tensor gpu_attention(const at::Tensor& qkv, const at::Tensor& cos_sin,
                                       const kernels::QkvShape& shape);

}  // namespace echelon::ops
