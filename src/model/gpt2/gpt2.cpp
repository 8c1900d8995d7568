#include "model/gpt2/gpt2.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "base/str.h"

namespace echelon {

Gpt2::Gpt2(const ModelOptions& options, const ModelTypes& types)
    : CausalModel(options, types, options.heads, std::nullopt) {
  const ShapeTable shapes(options);
  Layer& embedding = add_embedding("transformer.wte", shapes);
  position_layer_ = &embedding.add_layer("transformer.wpe");
  positions_ = add_linear(*position_layer_, "transformer.wpe", shapes, normal(options.init_std)).weight;
  for (std::int64_t i = 0; i < options.layers; ++i) add_block(str("transformer.h.", i), shapes);
  add_head("transformer.ln_f", shapes);
}

void Gpt2::add_block(const std::string& name, const ShapeTable& shapes) {
  const InitSpec init = normal(options_.init_std);
  // As in GPT-2, weights whose output is added to the residual stream start smaller, because otherwise its
  // variance would grow with every block.
  const InitSpec of_residual =
      normal(options_.init_std / std::sqrt(2.0 * static_cast<double>(options_.layers)));
  Layer& layer = add_layer(name, Layer::Role::kBlock);
  const Norm attention_norm(layer.add_layer(name + ".ln_1"), shapes, options_);
  Layer& attention = layer.add_layer(name + ".attn");
  const Norm mlp_norm(layer.add_layer(name + ".ln_2"), shapes, options_);
  Layer& mlp = layer.add_layer(name + ".mlp");
  Linear up = add_linear(mlp, name + ".mlp.c_fc", shapes, init);
  up_biases_.push_back(std::exchange(up.bias, nullptr));
  blocks_.push_back({.layer = &layer,
                     .attention = {.layer = &attention,
                                   .norm = attention_norm,
                                   .in = add_linear(attention, name + ".attn.c_attn", shapes, init),
                                   .out = add_linear(attention, name + ".attn.c_proj", shapes, of_residual)},
                     .mlp = {.layer = &mlp,
                             .norm = mlp_norm,
                             .inner = up,
                             .outer = add_linear(mlp, name + ".mlp.c_proj", shapes, of_residual)}});
}

at::Tensor Gpt2::embedded(const at::Tensor& ids, const Pass& pass) const {
  const at::Tensor positions =
      pass.positions.defined() ? pass.positions : pass.batch.sequences->positions(ids.device());
  const at::Tensor places = position_layer_->run(
      positions, [this](const at::Tensor& at) { return ops::embedding(at, *positions_); });
  return CausalModel::embedded(ids, pass) + places;
}

Activation Gpt2::activation(std::size_t block) const {
  return {[bias = up_biases_[block]](const at::Tensor& up) { return ops::bias_gelu(up, *bias); }};
}

double Gpt2::looked_up() const {
  return CausalModel::looked_up() + static_cast<double>(positions_->numel());
}

}  // namespace echelon
