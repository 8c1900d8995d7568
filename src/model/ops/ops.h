#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string_view>
#include <vector>

#include "model/batch.h"
#include "model/kernels/kernels.h"
#include "model/parameter.h"

/// Differentiable building blocks of the models. Activations are 2-D [tokens, features] in compute precision.
/// Weight gradients are written straight into Parameter::gradient (one pass, no copy) when the parameter has
/// a sink, and otherwise flow to value.grad() as usual; those of matrices whose value requires none are not
/// computed. On the CPU they run the fused kernels of model/kernels; on a GPU, those of device_kernels.h.
namespace echelon::ops {

/// [tokens] int64 ids -> [tokens, hidden].
[[nodiscard]] at::Tensor embedding(const at::Tensor& ids, Parameter& weight);

/// Recomputes a value that backward needs and forward did not keep; called without autograd.
using Recompute = std::function<at::Tensor()>;

/// x [tokens, in] * weight[out, in]^T, plus bias[out] where there is one -> [tokens, out]. With `x_again` it
/// is called in backward instead of keeping x; what it returns is cast to the type of the result.
[[nodiscard]] at::Tensor linear(const at::Tensor& x, Parameter& weight, const Recompute& x_again = {},
                                Parameter* bias = nullptr);

/// linear() of operands rounded to fp8, by tensorwise scales that follow from the operands (fp8_matrix.h): x
/// and weight to e4m3, the gradient of the result to e5m2. Sums are fp32, results have the type of x. Keeps x
/// in fp8. Every size of the weight is a multiple of 16.
[[nodiscard]] at::Tensor fp8_linear(const at::Tensor& x, Parameter& weight, const Recompute& x_again = {},
                                    Parameter* bias = nullptr);

/// Columns of a result to which one adapter adds.
struct Columns {
  std::int64_t first;
  std::int64_t count;
};

/// Adds h * b^T to y [tokens, out], in place. Several adapters side by side: h is [tokens, parts * rank], b
/// the rows of all of them, [sum of their columns, rank]; part i of h times its rows of b goes to parts[i] of
/// y.
[[nodiscard]] at::Tensor add_low_rank(const at::Tensor& y, const at::Tensor& h, Parameter& b,
                                      const std::vector<Columns>& parts);

/// Zhang & Sennrich, Root Mean Square Layer Normalization. weight: [features].
[[nodiscard]] at::Tensor rms_norm(const at::Tensor& x, Parameter& weight, double eps, NormRounding rounding);

/// A sum, and rms_norm() of it.
struct SumAndNorm {
  at::Tensor sum;
  at::Tensor norm;
};

/// {x + added, rms_norm() of it}, the sum as at::add() rounds it; `added` undefined: {x, rms_norm(x)}. What
/// else reads the sum should read this one: backward then adds both its gradients in the norm's pass.
[[nodiscard]] SumAndNorm add_rms_norm(const at::Tensor& x, const at::Tensor& added, Parameter& weight,
                                      double eps, NormRounding rounding);

/// rms_norm of queries and keys: of each head, as Qwen3 has it, or of all heads together, as OLMo 2. qkv:
/// [tokens, width of queries + 2 * kv_width]; the values stay. q, k: [elements that one norm is over].
[[nodiscard]] at::Tensor head_norm(const at::Tensor& qkv, Parameter& q, Parameter& k, std::int64_t kv_width,
                                   double eps, NormRounding rounding);

/// Ba, Kiros & Hinton, Layer Normalization. weight, bias: [features].
[[nodiscard]] at::Tensor layer_norm(const at::Tensor& x, Parameter& weight, Parameter& bias, double eps);

/// gelu(x + bias), in the tanh approximation that GPT-2 was trained with. x: [tokens, features].
[[nodiscard]] at::Tensor bias_gelu(const at::Tensor& x, Parameter& bias);

/// [tokens, 2n] (gate | up) -> silu(gate) * up [tokens, n]. Shazeer, GLU Variants Improve Transformer.
[[nodiscard]] at::Tensor swiglu(const at::Tensor& gate_up);

/// swiglu() with gelu(gate) * up, in gelu's approximation with tanh.
[[nodiscard]] at::Tensor geglu(const at::Tensor& gate_up);

/// Geometry of an attention: queries have `heads` heads, keys and values kv_heads, each of head_dim elements;
/// heads / kv_heads query heads share one of the latter.
struct AttentionOptions {
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
  bool causal;  ///< a token sees itself and those before it in its sequence; false: the whole sequence
  float scale;  ///< factor on the products of queries and keys
  std::int64_t window = 0;  ///< causal: a token sees itself and window - 1 tokens before it; 0: all before it
};

/// Position information of an attention; undefined tensors: none.
struct AttentionPositions {
  /// fp32 [>= longest sequence, width <= head_dim] (cos half | sin half), for the first `width` elements of
  /// each head of queries and keys.
  at::Tensor rotary;
  /// [heads, 2 * span - 1], span >= longest sequence: added to the scaled score of query i and key j is
  /// element (j - i) + span - 1. Gets a gradient.
  at::Tensor bias;
};

/// Attention of each sequence to itself. qkv: [tokens, (heads + 2 kv_heads) * head_dim]. Returns [tokens,
/// heads * head_dim]. The backward recomputes the probabilities from their kept log-sum-exp (Dao et al.,
/// FlashAttention), so memory stays linear in the length of a sequence.
[[nodiscard]] at::Tensor self_attention(const at::Tensor& qkv, const Sequences& sequences,
                                        const AttentionOptions& options, const AttentionPositions& positions);

/// Attention of the tokens of each sequence in `q` [tokens, heads * head_dim] to the sequence of the same
/// number in `kv` [tokens of them, 2 * kv_heads * head_dim] (keys | values). Not causal.
[[nodiscard]] at::Tensor cross_attention(const at::Tensor& q, const at::Tensor& kv, const Sequences& queries,
                                         const Sequences& keys, const AttentionOptions& options);

/// x [samples, channels, height, width], weight [out, channels, rows, columns], bias [out]; steps of one, no
/// padding.
[[nodiscard]] at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

/// Largest element of each 2 x 2 window of x [samples, channels, height, width]; an odd last row or column is
/// left out. The gradient goes to the first of equal ones.
[[nodiscard]] at::Tensor max_pool_2x2(const at::Tensor& x);

/// A parameter as an ordinary tensor for any ATen operation; its gradient goes to the sink like all weight
/// gradients. Slower than the operations above, which write gradients in place.
[[nodiscard]] at::Tensor use(Parameter& weight);

/// x with a share `probability` of its elements zeroed and the others scaled up (Srivastava et al.). x:
/// [tokens, ...], as batch.by_sample counts tokens, or [samples, ...]. The zeroed elements depend only on
/// batch.dropout_key, `site` (a name of the place in the model), the sample's global number, and the place in
/// the sample: neither the number of ranks nor a recomputation changes them. Returns x itself outside of
/// training.
[[nodiscard]] at::Tensor dropout(const at::Tensor& x, double probability, const Batch& batch,
                                 std::string_view site);

/// dropout(relu(x)); backward needs only the result.
[[nodiscard]] at::Tensor relu_dropout(const at::Tensor& x, double probability, const Batch& batch,
                                      std::string_view site);

/// Sum over tokens of the cross entropy of x * weight^T against `targets` (int64 [tokens]; negative:
/// ignored), fp32 scalar, without ever holding the logits of all tokens: a chunk's logits become its gradient
/// in place, and both input and weight gradients, multiplied by `gradient_scale`, are made during the forward
/// pass (as Liger's fused linear cross entropy). Logits are rounded to `output` where that is narrower. Its
/// own incoming gradient must be one. `weights`, fp32 [tokens], multiply the gradients of the tokens' terms,
/// but not the result; undefined: ones.
[[nodiscard]] at::Tensor linear_cross_entropy(const at::Tensor& x, Parameter& weight,
                                              const at::Tensor& targets, double gradient_scale,
                                              at::ScalarType output = at::kFloat,
                                              const at::Tensor& weights = {});

/// The terms of that sum, fp32 [tokens]: minus the log-probability of each token's target. Call it without
/// autograd.
[[nodiscard]] at::Tensor token_losses(const at::Tensor& x, const Parameter& weight, const at::Tensor& targets,
                                      at::ScalarType output = at::kFloat);

}  // namespace echelon::ops
