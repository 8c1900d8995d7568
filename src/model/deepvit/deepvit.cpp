#include "model/deepvit/deepvit.h"

#include <ATen/ATen.h>

#include <cmath>

#include "base/str.h"
#include "model/ops/products/product.h"

namespace echelon {

DeepVit::DeepVit(const ModelOptions& options, const ModelTypes& types)
    : PatchClassifier(options, types, PatchLayout::kChannelsLast, {.inner = ".inner", .outer = ".outer"}) {
  Layer& layer = add_layer("to_patch_embedding", Layer::Role::kEmbedding);
  add_positions(layer, "pos_embedding");
  add_class_token(layer, "cls_token");
  add_projection(layer, "to_patch_embedding.1");
  for (std::int64_t i = 0; i < options.layers; ++i)
    blocks_.push_back(make_block(str("transformer.layers.", i)));
  add_head("mlp_head", "mlp_head.0", "mlp_head.1");
}

DeepVit::Block DeepVit::make_block(const std::string& name) {
  Layer& layer = add_layer(name, Layer::Role::kBlock);
  const Norm attention_norm(layer.add_layer(name + ".0.fn.norm"), shapes_, options_);
  Layer& attention = layer.add_layer(name + ".0.fn.fn");
  const Linear qkv = add_linear(attention, name + ".0.fn.fn.to_qkv", shapes_, init());
  const std::string mixing = name + ".0.fn.fn.reattn_weights";
  Parameter& mixing_weight = attention.add(mixing, shapes_.at(mixing), normal(1));
  mixings_.push_back(
      {&mixing_weight, add_linear(attention, name + ".0.fn.fn.reattn_norm.1", shapes_, kOnes)});
  const Linear out = add_linear(attention, name + ".0.fn.fn.to_out.0", shapes_, init());
  const Norm mlp_norm(layer.add_layer(name + ".1.fn.norm"), shapes_, options_);
  Layer& up = layer.add_layer(name + ".1.fn.fn.net.0");
  Layer& down = layer.add_layer(name + ".1.fn.fn.net.3");
  return {.layer = &layer,
          .attention = {&attention, attention_norm, qkv, out},
          .norm = mlp_norm,
          .up_layer = &up,
          .up = add_linear(up, up.name(), shapes_, init()),
          .down_layer = &down,
          .down = add_linear(down, down.name(), shapes_, init())};
}

Attend DeepVit::attend(std::size_t number, const Batch& draws) const {
  return [this, number, draws](const at::Tensor& qkv, const LayerInputs&) {
    const Mixing& mixing = mixings_[number];
    const std::int64_t heads = options_.heads;
    const std::int64_t head_dim = options_.hidden_size / heads;
    // [3, samples, heads, tokens, head_dim]
    const at::Tensor split = qkv.view({-1, tokens(), 3, heads, head_dim}).permute({2, 0, 3, 1, 4});
    const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
    const at::Tensor scores = ops::matmul(split.select(0, 0) * scale, split.select(0, 1).transpose(2, 3));
    const at::Tensor maps = ops::dropout(at::softmax(scores, 3), options_.dropout, draws,
                                         blocks_[number].layer->name() + ".maps");
    // Mixing and norm act on the last dimension, so heads are moved there.
    const at::Tensor mixed = ops::matmul(maps.permute({0, 2, 3, 1}), ops::use(*mixing.weight));
    const at::Tensor normed_maps = at::layer_norm(mixed, {heads}, ops::use(*mixing.norm.weight),
                                                  ops::use(*mixing.norm.bias), options_.norm_eps);
    const at::Tensor out = ops::matmul(normed_maps.permute({0, 3, 1, 2}), split.select(0, 2));
    return out.permute({0, 2, 1, 3}).reshape({qkv.size(0), options_.hidden_size});
  };
}

SampleFlops DeepVit::flops_per_sample(const SampleShape& /*shape*/) const {
  const double h = static_cast<double>(options_.hidden_size);
  const double heads = static_cast<double>(options_.heads);
  return flops_with((12.0 * h + 6.0 * heads * heads) * static_cast<double>(tokens()));
}

}  // namespace echelon
