#include "model/llama/llama.h"

#include <ATen/ATen.h>

#include <cmath>

#include "base/str.h"
#include "model/ops/ops.h"

namespace echelon {
namespace {

std::optional<RotaryTable> window_rotary(const ModelOptions& options, at::ScalarType dtype,
                                         at::Device device) {
  if (!find_llama_family(options.kind)->own_window_rope) return {};
  ModelOptions plain = options;
  plain.rope_scaling = {};
  if (options.window_rope_theta > 0) plain.rope_theta = options.window_rope_theta;
  return RotaryTable(plain, dtype, device);
}

double rounded_to(at::ScalarType type, double value) {
  const auto narrow = static_cast<float>(value);
  if (type == at::kBFloat16) return static_cast<float>(c10::BFloat16(narrow));
  if (type == at::kHalf) return static_cast<float>(c10::Half(narrow));
  return narrow;
}

}  // namespace

Llama::Llama(const ModelOptions& options, const ModelTypes& types, at::Device device, const LoraOptions& lora)
    : CausalModel(options, types, options.kv_heads, RotaryTable(options, types.buffer, device),
                  window_rotary(options, types.buffer, device)),
      family_(*find_llama_family(options.kind)) {
  const ShapeTable shapes(options);
  add_embedding("model.embed_tokens", shapes);
  for (std::int64_t i = 0; i < options.layers; ++i) add_block(str("model.layers.", i), shapes);
  add_head("model.norm", shapes);
  add_adapters(lora);
}

void Llama::add_block(const std::string& name, const ShapeTable& shapes) {
  const InitSpec init = normal(options_.init_std);
  Layer& layer = add_layer(name, Layer::Role::kBlock);
  const auto norm = [&](const char* part) {
    const bool has = shapes.has(str(name, part, ".weight"));
    return has ? std::optional(Norm(layer.add_layer(name + part), shapes, options_)) : std::nullopt;
  };
  // In the order of computation, in which parts that are separate units are gathered.
  const auto input_norm = norm(".input_layernorm");
  Layer& attention = layer.add_layer(name + ".self_attn");
  const auto middle_norm = norm(".post_attention_layernorm");
  const auto mlp_norm = norm(".pre_feedforward_layernorm");
  Layer& mlp = layer.add_layer(name + ".mlp");
  const auto output_norm = norm(".post_feedforward_layernorm");
  const bool before = family_.block_norms == BlockNorms::kBefore;
  const auto of_attention = [&](const char* part) { return attention.name() + part; };
  const auto of_mlp = [&](const char* part) { return mlp.name() + part; };
  std::vector<std::string> qkv{of_attention(".q_proj"), of_attention(".k_proj"), of_attention(".v_proj")};
  std::vector<std::string> gate_up{of_mlp(".gate_proj"), of_mlp(".up_proj")};
  if (family_.fuses_products) {
    qkv = {of_attention(".qkv_proj")};
    gate_up = {of_mlp(".gate_up_proj")};
  }
  blocks_.push_back({.layer = &layer,
                     .attention = {.layer = &attention,
                                   .norm = input_norm,
                                   .in = add_stacked(attention, qkv, shapes, init),
                                   .out = add_linear(attention, of_attention(".o_proj"), shapes, init),
                                   .norm_after = before ? std::nullopt : middle_norm},
                     .mlp = {.layer = &mlp,
                             .norm = before ? middle_norm : mlp_norm,
                             .inner = add_stacked(mlp, gate_up, shapes, init),
                             .outer = add_linear(mlp, of_mlp(".down_proj"), shapes, init),
                             .norm_after = output_norm}});
  if (shapes.has(of_attention(".q_norm.weight"))) {
    const InitSpec ones = initial_norm(norm_rounding(options_));
    q_norms_.push_back(add_linear(attention, of_attention(".q_norm"), shapes, ones).weight);
    k_norms_.push_back(add_linear(attention, of_attention(".k_norm"), shapes, ones).weight);
  }
}

Attend Llama::attend_in(std::size_t block, const Pass& pass) const {
  const Attend attend = CausalModel::attend_in(block, pass);
  if (q_norms_.empty()) return attend;
  return [this, block, attend](const at::Tensor& qkv, const LayerInputs& inputs) {
    return attend(
        ops::head_norm(qkv, *q_norms_[block], *k_norms_[block], options_.kv_heads * head_size(options_),
                       options_.norm_eps, norm_rounding(options_)),
        inputs);
  };
}

Activation Llama::activation(std::size_t /*block*/) const {
  return {family_.gates_by_gelu ? ops::geglu : ops::swiglu};
}

at::Tensor Llama::embedded(const at::Tensor& ids, const Pass& pass) const {
  const at::Tensor x = CausalModel::embedded(ids, pass);
  if (!family_.scales_embeddings) return times(x, options_.embedding_multiplier);
  return times(x, rounded_to(x.scalar_type(), std::sqrt(static_cast<double>(options_.hidden_size))));
}

}  // namespace echelon
