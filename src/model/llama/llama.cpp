#include "model/llama/llama.h"

#include <nlohmann/json.hpp>

#include "base/str.h"
#include "model/ops/ops.h"

namespace echelon {

Llama::Llama(const ModelOptions& options, const ModelTypes& types, at::Device device, const LoraOptions& lora)
    : CausalModel(options, types, options.kv_heads, RotaryTable(options, types.buffer, device)) {
  const ShapeTable shapes(options);
  add_embedding("model.embed_tokens", shapes);
  for (std::int64_t i = 0; i < options.layers; ++i)
    blocks_.push_back(make_block(str("model.layers.", i), shapes));
  add_head("model.norm", shapes);
  const std::vector<AdaptedMatrix> adapted = adapted_matrices(options, lora);
  for (Block& block : blocks_) {
    for (Linear* linear : {&block.attention.in, &block.attention.out, &block.mlp.inner, &block.mlp.outer})
      add_adapter(*linear, adapted, lora);
  }
}

Llama::Block Llama::make_block(const std::string& name, const ShapeTable& shapes) {
  const InitSpec init = normal(options_.init_std);
  Layer& layer = add_block_layer(name);
  // In the order of computation, in which parts that are separate units are gathered.
  Layer& input_norm = layer.add_layer(name + ".input_layernorm");
  Layer& attention = layer.add_layer(name + ".self_attn");
  Layer& mlp_norm = layer.add_layer(name + ".post_attention_layernorm");
  Layer& mlp = layer.add_layer(name + ".mlp");
  const auto of_attention = [&](const char* part) { return attention.name() + part; };
  const auto of_mlp = [&](const char* part) { return mlp.name() + part; };
  Block block{.layer = &layer,
              .attention = {.layer = &attention,
                            .norm = Norm(input_norm, shapes, options_),
                            .in = add_stacked(
                                attention,
                                {of_attention(".q_proj"), of_attention(".k_proj"), of_attention(".v_proj")},
                                shapes, init),
                            .out = add_linear(attention, of_attention(".o_proj"), shapes, init)},
              .mlp = {.layer = &mlp,
                      .norm = Norm(mlp_norm, shapes, options_),
                      .inner = add_stacked(mlp, {of_mlp(".gate_proj"), of_mlp(".up_proj")}, shapes, init),
                      .outer = add_linear(mlp, of_mlp(".down_proj"), shapes, init)}};
  if (shapes.has(of_attention(".q_norm.weight"))) {
    block.q_norm = add_linear(attention, of_attention(".q_norm"), shapes, kOnes).weight;
    block.k_norm = add_linear(attention, of_attention(".k_norm"), shapes, kOnes).weight;
  }
  return block;
}

Attend Llama::attend_in(const Block& block, std::size_t number, const Pass& pass) const {
  const Attend attend = attend_as(pass.attention, number);
  if (block.q_norm == nullptr) return attend;
  return [this, &block, attend](const at::Tensor& qkv, const LayerInputs& inputs) {
    return attend(ops::head_norm(qkv, *block.q_norm, *block.k_norm, options_.kv_heads * head_size(options_),
                                 options_.norm_eps, options_.norm_rounding),
                  inputs);
  };
}

at::Tensor Llama::block_forward(std::size_t number, const at::Tensor& x, const Pass& pass) const {
  const Block& block = blocks_[number];
  const at::Tensor middle =
      x + block.attention.forward(*block.layer, x, attend_in(block, number, pass), {}, pass.batch);
  return middle + block.mlp.forward(*block.layer, middle, {ops::swiglu}, pass.batch);
}

namespace {

using Json = nlohmann::json;

/// What transformers 5 calls rope_parameters, and 4, without the theta, rope_scaling.
Json rope_parameters(const ModelOptions& model) {
  const RopeScalingOptions& rope = model.rope_scaling;
  Json all{{"rope_type", word_of(rope.kind)}, {"rope_theta", model.rope_theta}};
  if (rope.kind != RopeKind::kDefault) all["factor"] = rope.factor;
  if (rope.kind != RopeKind::kDefault && rope.kind != RopeKind::kLinear)
    all["original_max_position_embeddings"] = original_positions(model);
  if (rope.kind == RopeKind::kLlama3) {
    all["low_freq_factor"] = rope.low_freq_factor;
    all["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.kind == RopeKind::kYarn) {
    all["beta_fast"] = rope.beta_fast;
    all["beta_slow"] = rope.beta_slow;
    all["truncate"] = rope.truncate;
    if (rope.attention_factor > 0) all["attention_factor"] = rope.attention_factor;
  }
  return all;
}

void add_window(Json& config, const ModelOptions& model) {
  if (model.kind == ModelKind::kLlama) return;
  config["sliding_window"] = model.window > 0 ? Json(model.window) : Json();
  if (model.kind == ModelKind::kMistral) return;
  config["use_sliding_window"] = model.window > 0;
  config["max_window_layers"] = model.window > 0 ? model.window_from_layer : model.layers;
}

const char* class_of(ModelKind kind) {
  switch (kind) {
    case ModelKind::kMistral:
      return "MistralForCausalLM";
    case ModelKind::kQwen2:
      return "Qwen2ForCausalLM";
    case ModelKind::kQwen3:
      return "Qwen3ForCausalLM";
    default:
      return "LlamaForCausalLM";
  }
}

}  // namespace

std::string Llama::hugging_face_config() const {
  Json config{{"architectures", {class_of(options_.kind)}},
              {"model_type", word_of(options_.kind)},
              {"vocab_size", options_.vocab_size},
              {"hidden_size", options_.hidden_size},
              {"intermediate_size", options_.intermediate_size},
              {"num_hidden_layers", options_.layers},
              {"num_attention_heads", options_.heads},
              {"num_key_value_heads", options_.kv_heads},
              {"head_dim", head_size(options_)},
              {"max_position_embeddings", options_.max_positions},
              {"rms_norm_eps", options_.norm_eps},
              {"rope_theta", options_.rope_theta},
              {"rope_parameters", rope_parameters(options_)},
              {"tie_word_embeddings", options_.tie_embeddings},
              {"hidden_act", "silu"},
              {"attention_bias", false},
              {"initializer_range", options_.init_std},
              {"torch_dtype", "float32"},
              {"dtype", "float32"}};
  if (options_.kind == ModelKind::kLlama) config["mlp_bias"] = false;
  if (options_.rope_scaling.kind != RopeKind::kDefault) {
    config["rope_scaling"] = config["rope_parameters"];
    config["rope_scaling"].erase("rope_theta");
  }
  add_window(config, options_);
  return config.dump(2) + "\n";
}

}  // namespace echelon
