#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/str.h"
#include "reference/models.h"

namespace echelon::reference {
namespace {

/// Row of the bias table for a key that is `distance` positions after its query.
std::int64_t bucket_of(std::int64_t distance, const ModelOptions& model, bool both_ways) {
  const std::int64_t count = both_ways ? model.relative_buckets / 2 : model.relative_buckets;
  const std::int64_t first = both_ways && distance > 0 ? count : 0;
  const std::int64_t away = both_ways ? std::abs(distance) : std::max<std::int64_t>(-distance, 0);
  const std::int64_t exact = count / 2;
  if (away < exact) return first + away;
  // In fp32, as in the original: some distances lie on a border.
  const float ratio = std::log(static_cast<float>(away) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(static_cast<double>(model.relative_max_distance) /
                                                  static_cast<double>(exact)));
  const auto wide = exact + static_cast<std::int64_t>(ratio * static_cast<float>(count - exact));
  return first + std::min(wide, count - 1);
}

/// [heads, tokens, tokens].
at::Tensor position_bias(const at::Tensor& table, std::int64_t tokens, const ModelOptions& model,
                         bool both_ways) {
  std::vector<std::int64_t> buckets;
  for (std::int64_t query = 0; query < tokens; ++query) {
    for (std::int64_t key = 0; key < tokens; ++key)
      buckets.push_back(bucket_of(key - query, model, both_ways));
  }
  return widened(table).index_select(0, at::tensor(buckets, at::kLong)).t().reshape({-1, tokens, tokens});
}

/// One attention of a block: `of_keys` holds the tokens that are attended to.
at::Tensor t5_attention(const std::string& name, const at::Tensor& x, const at::Tensor& of_keys,
                        const Pass& pass, const Attention& options) {
  return affine(pass, name + ".o",
                attention(affine(pass, name + ".q", x), affine(pass, name + ".k", of_keys),
                          affine(pass, name + ".v", of_keys), options));
}

at::Tensor t5_feed_forward(const std::string& layer, const at::Tensor& x, const Pass& pass) {
  const std::string name = layer + ".DenseReluDense";
  const at::Tensor in = rms_normed(pass, layer + ".layer_norm", x);
  const at::Tensor inner =
      pass.model.feed_forward == FeedForward::kGatedGelu
          ? gelu_by_tanh(affine(pass, name + ".wi_0", in)) * affine(pass, name + ".wi_1", in)
          : at::relu(affine(pass, name + ".wi", in));
  const double p = pass.model.dropout;
  return x + dropped(pass, layer, p, affine(pass, name + ".wo", dropped(pass, layer + ".inner", p, inner)));
}

/// Encoder, or decoder if `encoded` is defined.
at::Tensor t5_stack(const at::Tensor& ids, const at::Tensor& encoded, const Pass& pass) {
  const ModelOptions& model = pass.model;
  const bool decodes = encoded.defined();
  const std::string stack = decodes ? "decoder" : "encoder";
  const at::Tensor bias =
      position_bias(weight_of(pass, stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
                    ids.size(0), model, !decodes);
  at::Tensor x = dropped(pass, stack + ".embed_tokens", model.dropout,
                         weight_of(pass, "shared.weight").index_select(0, ids));
  for (std::int64_t i = 0; i < (decodes ? decoder_layers(model) : model.layers); ++i) {
    const std::string block = str(stack, ".block.", i, ".layer.");
    const at::Tensor in = rms_normed(pass, block + "0.layer_norm", x);
    // T5 does not scale its scores.
    const at::Tensor attended = t5_attention(block + "0.SelfAttention", in, in, pass,
                                             {.heads = model.heads, .causal = decodes, .bias = bias});
    x = x + dropped(pass, block + "0", model.dropout, attended);
    if (decodes) {
      const at::Tensor of_queries = rms_normed(pass, block + "1.layer_norm", x);
      const at::Tensor from_source =
          t5_attention(block + "1.EncDecAttention", of_queries, encoded, pass, {.heads = model.heads});
      x = x + dropped(pass, block + "1", model.dropout, from_source);
    }
    x = t5_feed_forward(block + (decodes ? "2" : "1"), x, pass);
  }
  return dropped(pass, stack + ".final", model.dropout, rms_normed(pass, stack + ".final_layer_norm", x));
}

/// The decoder reads what it should have predicted, one position later; 0 starts it.
at::Tensor one_later(const at::Tensor& targets) {
  return at::cat({at::zeros({1}, at::kLong), targets.narrow(0, 0, targets.size(0) - 1).clamp_min(0)});
}

}  // namespace

at::Tensor t5_loss(const Pass& pass, const SampleBatch& sample) {
  const ModelOptions& model = pass.model;
  const at::Tensor targets = at::tensor(sample.targets, at::kLong);
  const at::Tensor encoded = t5_stack(at::tensor(sample.ids, at::kLong), {}, pass);
  at::Tensor x = t5_stack(one_later(targets), encoded, pass);
  if (model.tie_embeddings) x = x / std::sqrt(static_cast<double>(model.hidden_size));
  return cross_entropy(affine(pass, model.tie_embeddings ? "shared" : "lm_head", x), targets);
}

}  // namespace echelon::reference
