#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "model/kernels/kernels.h"
#include "model/parameter.h"

/// Differentiable building blocks of the models. Activations are 2-D [tokens, features] in compute precision.
/// Weight gradients are written straight into Parameter::gradient (one pass, no copy) when the parameter has
/// a sink, and otherwise flow to value.grad() as usual. On the CPU they run the fused kernels of
/// model/kernels; on a GPU, those of device_kernels.h.
namespace echelon::ops {

/// [tokens] int64 ids -> [tokens, hidden].
[[nodiscard]] at::Tensor embedding(const at::Tensor& ids, Parameter& weight);

/// Makes a value again that backward needs and forward did not keep; called without autograd.
using Recompute = std::function<at::Tensor()>;

/// x [tokens, in] * weight[out, in]^T -> [tokens, out]. With `x_again` it is called in backward instead of
/// keeping x.
[[nodiscard]] at::Tensor linear(const at::Tensor& x, Parameter& weight, const Recompute& x_again = {});

/// Zhang & Sennrich, Root Mean Square Layer Normalization. weight: [features].
[[nodiscard]] at::Tensor rms_norm(const at::Tensor& x, Parameter& weight, double eps);

/// [tokens, 2n] (gate | up) -> silu(gate) * up [tokens, n]. Shazeer, GLU Variants Improve Transformer.
[[nodiscard]] at::Tensor swiglu(const at::Tensor& gate_up);

/// Rotary embedding and causal grouped-query attention. qkv: [batch * T, (heads + 2 kv_heads) * head_dim];
/// cos_sin: fp32 [>= T, head_dim] (cos half | sin half). Returns [batch * T, heads * head_dim]. The backward
/// recomputes the probabilities from their kept log-sum-exp (Dao et al., FlashAttention), so memory stays
/// linear in T.
[[nodiscard]] at::Tensor causal_attention(const at::Tensor& qkv, const at::Tensor& cos_sin,
                                          kernels::QkvShape shape);

/// Sum over tokens of the cross entropy of x * weight^T against `targets` (int64 [tokens]; negative:
/// ignored), fp32 scalar, without ever holding the logits of all tokens: a chunk's logits become its gradient
/// in place, and both input and weight gradients, multiplied by `gradient_scale`, are made during the forward
/// pass (as Liger's fused linear cross entropy). Logits are rounded to `output` where that is narrower. Its
/// own incoming gradient must be one.
[[nodiscard]] at::Tensor linear_cross_entropy(const at::Tensor& x, Parameter& weight,
                                              const at::Tensor& targets, double gradient_scale,
                                              at::ScalarType output = at::kFloat);

}  // namespace echelon::ops
