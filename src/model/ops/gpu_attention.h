#pragma once
#include <ATen/core/Tensor.h>

#include "model/ops/ops.h"

namespace echelon::ops {

/// self_attention() and cross_attention() (ops.h) for tensors on a GPU: the rotary kernels around one of
/// PyTorch's fused attentions. Sequences of different lengths, or longer than a window, are attended to
/// without padding; with a bias, a head size or a type that attend() does not support (device_kernels.h),
/// they are padded and what is not seen is masked. Throws as attention_backend() does.
[[nodiscard]] at::Tensor gpu_self_attention(const at::Tensor& qkv, const SequenceLayout& sequences,
                                            const AttentionOptions& options,
                                            const AttentionPositions& positions);
[[nodiscard]] at::Tensor gpu_cross_attention(const at::Tensor& q, const at::Tensor& kv,
                                             const SequenceLayout& queries, const SequenceLayout& keys,
                                             const AttentionOptions& options);

}  // namespace echelon::ops
