#include "model/vit/vit.h"

#include <ATen/ATen.h>

#include <cmath>

#include "base/str.h"

namespace echelon {

Vit::Vit(const ModelOptions& options, const ModelTypes& types)
    : PatchClassifier(options, types, PatchLayout::kChannelsFirst, {.outer = ".output"}) {
  const std::string start = "vit.embeddings";
  Layer& layer = add_layer(start, Layer::Role::kEmbedding);
  add_class_token(layer, start + ".cls_token");
  add_positions(layer, start + ".position_embeddings");
  add_projection(layer, start + ".patch_embeddings.projection");
  for (std::int64_t i = 0; i < options.layers; ++i)
    blocks_.push_back(make_block(str("vit.encoder.layer.", i)));
  add_head("classifier", "vit.layernorm", "classifier");
}

Vit::Block Vit::make_block(const std::string& name) {
  Layer& layer = add_layer(name, Layer::Role::kBlock);
  const Norm norm_before(layer.add_layer(name + ".layernorm_before"), shapes_, options_);
  Layer& attention = layer.add_layer(name + ".attention");
  const std::string projections = name + ".attention.attention";
  const Linear qkv = add_stacked(
      attention, {projections + ".query", projections + ".key", projections + ".value"}, shapes_, init());
  const Linear out = add_linear(attention, name + ".attention.output.dense", shapes_, init());
  const Norm norm_after(layer.add_layer(name + ".layernorm_after"), shapes_, options_);
  Layer& intermediate = layer.add_layer(name + ".intermediate");
  Layer& output = layer.add_layer(name + ".output");
  return {.layer = &layer,
          .attention = {&attention, norm_before, qkv, out},
          .norm = norm_after,
          .up_layer = &intermediate,
          .up = add_linear(intermediate, name + ".intermediate.dense", shapes_, init()),
          .down_layer = &output,
          .down = add_linear(output, name + ".output.dense", shapes_, init())};
}

Attend Vit::attend(std::size_t /*block*/, const Batch& draws) const {
  const std::int64_t head_dim = options_.hidden_size / options_.heads;
  const ops::AttentionOptions geometry{.heads = options_.heads,
                                       .kv_heads = options_.heads,
                                       .head_dim = head_dim,
                                       .causal = false,
                                       .scale = 1.0F / std::sqrt(static_cast<float>(head_dim))};
  return [geometry, samples = draws.by_sample](const at::Tensor& qkv, const LayerInputs&) {
    return ops::self_attention(qkv, samples, geometry, {});
  };
}

SampleFlops Vit::flops_per_sample(const SampleShape& /*shape*/) const {
  return flops_with(12.0 * static_cast<double>(options_.hidden_size * tokens()));
}

}  // namespace echelon
