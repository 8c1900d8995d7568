#include "model/gpt_neox/gpt_neox.h"

#include <ATen/ATen.h>

#include "base/str.h"

namespace echelon {

GptNeoX::GptNeoX(const ModelOptions& options, const ModelTypes& types, at::Device device,
                 const LoraOptions& lora)
    : CausalModel(options, types, options.heads, RotaryTable(options, types.buffer, device)) {
  const ShapeTable shapes(options);
  add_embedding("gpt_neox.embed_in", shapes);
  for (std::int64_t i = 0; i < options.layers; ++i) add_block(str("gpt_neox.layers.", i), shapes);
  add_head("gpt_neox.final_layer_norm", shapes, "embed_out");
  add_adapters(lora);
}

void GptNeoX::add_block(const std::string& name, const ShapeTable& shapes) {
  const InitSpec init = normal(options_.init_std);
  Layer& layer = add_layer(name, Layer::Role::kBlock);
  const Norm attention_norm(layer.add_layer(name + ".input_layernorm"), shapes, options_);
  Layer& attention = layer.add_layer(name + ".attention");
  const Norm mlp_norm(layer.add_layer(name + ".post_attention_layernorm"), shapes, options_);
  Layer& mlp = layer.add_layer(name + ".mlp");
  blocks_.push_back(
      {.layer = &layer,
       .attention = {.layer = &attention,
                     .norm = attention_norm,
                     .in = add_linear(attention, name + ".attention.query_key_value", shapes, init),
                     .out = add_linear(attention, name + ".attention.dense", shapes, init)},
       .mlp = {.layer = &mlp,
               .norm = mlp_norm,
               .inner = add_linear(mlp, name + ".mlp.dense_h_to_4h", shapes, init),
               .outer = add_linear(mlp, name + ".mlp.dense_4h_to_h", shapes, init)}});
}

Attend GptNeoX::attend_in(std::size_t block, const Pass& pass) const {
  return [this, inner = CausalModel::attend_in(block, pass)](const at::Tensor& by_head,
                                                             const LayerInputs& inputs) {
    const at::Tensor heads = by_head.view({by_head.size(0), options_.heads, 3, head_size(options_)});
    return inner(heads.transpose(1, 2).reshape(by_head.sizes()), inputs);
  };
}

Activation GptNeoX::activation(std::size_t /*block*/) const {
  const char* form = options_.hidden_act == HiddenAct::kGelu ? "none" : "tanh";
  return {[form](const at::Tensor& up) { return at::gelu(up, form); }};
}

}  // namespace echelon
