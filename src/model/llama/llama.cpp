#include "model/llama/llama.h"

#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>

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

namespace {

using Json = nlohmann::json;

/// What transformers 5 calls rope_parameters, and 4, without the theta, rope_scaling.
Json rope_parameters(const ModelOptions& model) {
  const RopeScalingOptions& rope = model.rope_scaling;
  Json all{{"rope_type", word_of(rope.kind)}, {"rope_theta", model.rope_theta}};
  if (rope.kind == RopeKind::kLongRope) {
    all["short_factor"] = rope.short_factor;
    all["long_factor"] = rope.long_factor;
  } else if (rope.kind != RopeKind::kDefault) {
    all["factor"] = rope.factor;
  }
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

Json layer_types(const ModelOptions& model) {
  Json types = Json::array();
  for (std::int64_t block = 0; block < model.layers; ++block)
    types.push_back(has_window(model, block) ? "sliding_attention" : "full_attention");
  return types;
}

/// The rotary positions, as both versions of transformers read them.
void add_rope(Json& config, const ModelOptions& model) {
  const Json rope = rope_parameters(model);
  config["rope_theta"] = model.rope_theta;
  config["rope_parameters"] = rope;
  if (find_llama_family(model.kind)->own_window_rope) {
    const double theta = model.window_rope_theta > 0 ? model.window_rope_theta : model.rope_theta;
    config["rope_parameters"] = {{"full_attention", rope},
                                 {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", theta}}}};
  }
  if (find_llama_family(model.kind)->turns_part) {
    config["partial_rotary_factor"] = model.partial_rotary_factor;
    config["rope_parameters"]["partial_rotary_factor"] = model.partial_rotary_factor;
  }
  if (model.rope_scaling.kind == RopeKind::kDefault) return;
  config["rope_scaling"] = rope;
  config["rope_scaling"].erase("rope_theta");
  if (model.rope_scaling.kind != RopeKind::kLongRope) return;
  // transformers 4 takes these three members of a Phi-3 only.
  config["rope_scaling"] = {{"type", "longrope"},
                            {"short_factor", model.rope_scaling.short_factor},
                            {"long_factor", model.rope_scaling.long_factor}};
  config["original_max_position_embeddings"] = original_positions(model);
}

void add_window(Json& config, const ModelOptions& model) {
  const Windows windows = find_llama_family(model.kind)->windows;
  if (windows == Windows::kNone) return;
  config["sliding_window"] = model.window > 0 ? Json(model.window) : Json();
  if (windows == Windows::kLayerTypes) {
    config["layer_types"] = layer_types(model);
    // transformers 4 makes the mask of a window that no layer has.
    if (model.window == 0) config["sliding_window"] = model.max_positions;
  } else if (windows == Windows::kFromLayer) {
    config["use_sliding_window"] = model.window > 0;
    config["max_window_layers"] = model.window > 0 ? model.window_from_layer : model.layers;
  }
}

/// Members that only some families have.
void add_own(Json& config, const ModelOptions& model) {
  if (model.kind == ModelKind::kLlama || model.kind == ModelKind::kSmolLm3 ||
      model.kind == ModelKind::kGranite)
    config["mlp_bias"] = false;
  if (model.kind == ModelKind::kSmolLm3) {
    for (std::int64_t block = 0; block < model.layers; ++block)
      config["no_rope_layers"].push_back(has_rope(model, block) ? 1 : 0);
    if (model.no_rope_every > 0) config["no_rope_layer_interval"] = model.no_rope_every;
  }
  if (model.kind == ModelKind::kGranite) {
    config["embedding_multiplier"] = model.embedding_multiplier;
    config["residual_multiplier"] = model.residual_multiplier;
    config["attention_multiplier"] = attention_scale(model);
    config["logits_scaling"] = model.logits_scaling;
  }
  if (model.kind == ModelKind::kGemma3Text) {
    config["hidden_activation"] = "gelu_pytorch_tanh";
    config["query_pre_attn_scalar"] =
        model.query_pre_attn_scalar > 0 ? model.query_pre_attn_scalar : head_size(model);
    config["rope_local_base_freq"] = config["rope_parameters"]["sliding_attention"]["rope_theta"];
    config.erase("hidden_act");
  }
}

}  // namespace

std::string Llama::hugging_face_config() const {
  Json config{{"architectures", {family_.architecture}},
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
              {"tie_word_embeddings", options_.tie_embeddings},
              {"hidden_act", "silu"},
              {"attention_bias", false},
              {"initializer_range", options_.init_std},
              {"pad_token_id", nullptr},
              {"torch_dtype", "float32"},
              {"dtype", "float32"}};
  add_rope(config, options_);
  add_window(config, options_);
  add_own(config, options_);
  return config.dump(2) + "\n";
}

}  // namespace echelon
