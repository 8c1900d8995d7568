#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/loader.h"
#include "shapes/options.h"

/// The parts of models, in ATen's operations and as plainly as textbooks write them: one sequence at a time,
/// one tensor for each weight, no fused operations. Compared with the product, so it shares none of its code.
/// All floating-point tensors of a call have one type; sums of norms, softmax and losses are made in fp32, of
/// fp64 tensors in fp64.
namespace echelon::reference {

/// Weights by their names in checkpoints.
using Weights = std::map<std::string, at::Tensor>;

/// The context in which a sequence is computed.
struct Pass {
  const ModelOptions& model;
  const LoraOptions& lora;
  const Weights& weights;
  std::uint64_t seed = 0;   ///< of dropout
  std::int64_t sample = 0;  ///< number in the stream of samples
  std::int64_t place = 0;   ///< of the sequence's first token within the sample
};

/// Throws Error(kInternal) if there is none of this name.
[[nodiscard]] const at::Tensor& weight_of(const Pass& pass, const std::string& name);

/// fp64 for fp64, fp32 for all other types.
[[nodiscard]] at::Tensor widened(const at::Tensor& x);

/// x [tokens, inputs] times `name`.weight [outputs, inputs], plus `name`.bias if there is one.
[[nodiscard]] at::Tensor affine(const Pass& pass, const std::string& name, const at::Tensor& x);

/// affine() of several matrices with one input, and what their adapters add: scale * B(A(dropped x)). They
/// share a mask of dropout, whose site is the first A.
[[nodiscard]] std::vector<at::Tensor> adapted(const Pass& pass, const std::vector<std::string>& names,
                                              const at::Tensor& x);

/// x [tokens, ...] with a share `probability` of its elements zeroed and the others scaled up. Element i of
/// token t is zeroed if 16 bits are below the probability, in 1/65536: half i % 8 of Philox's four words
/// under the key of seed and `site`, whose counter is t's place in the sample times the calls of a token,
/// plus i / 8; its upper part is the number of the sample.
[[nodiscard]] at::Tensor dropped(const Pass& pass, const std::string& site, double probability,
                                 const at::Tensor& x);

/// x / sqrt(mean of squares + eps) over the last dimension, times `name`.weight (plus 1 in Gemma 3), rounded
/// to x's type, and where the model's norms round twice also before the weight.
[[nodiscard]] at::Tensor rms_normed(const Pass& pass, const std::string& name, const at::Tensor& x);

/// (x - mean) / sqrt(variance + eps) over the last dimension, times `name`.weight, plus `name`.bias.
[[nodiscard]] at::Tensor layer_normed(const Pass& pass, const std::string& name, const at::Tensor& x);

/// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
[[nodiscard]] at::Tensor gelu_by_tanh(const at::Tensor& x);
/// x times the normal distribution's share below x.
[[nodiscard]] at::Tensor exact_gelu(const at::Tensor& x);

/// Turns the first part of each head of `rows` [tokens, heads x d] by its position: element i with the one
/// half of that part behind it. `model`: with the stretching of the block.
[[nodiscard]] at::Tensor rotated(const at::Tensor& rows, std::int64_t heads, const ModelOptions& model);

struct Attention {
  std::int64_t heads = 1;
  std::int64_t kv_heads = 0;  ///< 0: as many as heads
  double scale = 1;
  bool causal = false;
  std::int64_t window = 0;  ///< a query sees itself and window - 1 positions before it; 0: all
  at::Tensor bias = {};     ///< [heads, queries, keys], added to the scores; undefined: none
};
/// q [queries, heads x d], k and v [keys, kv_heads x d] -> [queries, heads x d].
[[nodiscard]] at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const Attention& options);

/// Sum over the rows with a target (not negative) of -log softmax(logits)[target].
[[nodiscard]] at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

/// The numbers of a batch's list as one tensor for each sequence.
[[nodiscard]] std::vector<at::Tensor> sequences_of(const std::vector<std::int64_t>& numbers,
                                                   const std::vector<std::int64_t>& lengths);

/// cross_entropy() of a sample without sources: of the logits that `logits` makes of each sequence's ids.
[[nodiscard]] at::Tensor sum_over_sequences(
    const Pass& pass, const SampleBatch& sample,
    const std::function<at::Tensor(const Pass& pass, const at::Tensor& ids)>& logits);

}  // namespace echelon::reference
