#include "model/llama/llama.h"

#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "model/ops/ops.h"

namespace echelon {
namespace {

/// [positions, head_dim]: cos of the angles, then sin; angle(p, i) = p * theta^(-2i / head_dim).
at::Tensor rotary_table(const ModelOptions& o, at::ScalarType dtype, at::Device device) {
  const std::int64_t head_dim = o.hidden_size / o.heads;
  const at::Tensor exponent = at::arange(0, head_dim, 2, at::kFloat) / static_cast<double>(head_dim);
  const at::Tensor frequency = at::reciprocal(at::pow(o.rope_theta, exponent));
  const at::Tensor angle = at::outer(at::arange(o.max_positions, at::kFloat), frequency);
  return at::cat({angle.cos(), angle.sin()}, 1).to(dtype).to(at::kFloat).contiguous().to(device);
}

}  // namespace

Llama::Llama(const ModelOptions& options, const ModelTypes& types, at::Device device)
    : CausalModel(options, types, options.kv_heads, rotary_table(options, types.buffer, device)) {
  const ShapeTable shapes(options);
  add_embedding("model.embed_tokens", shapes);
  for (std::int64_t i = 0; i < options.layers; ++i)
    blocks_.push_back(make_block(str("model.layers.", i), shapes));
  add_head("model.norm", shapes);
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
  return {.layer = &layer,
          .attention = {.layer = &attention,
                        .norm = Norm(input_norm, shapes, options_.norm_eps),
                        .in = add_stacked(
                            attention,
                            {of_attention(".q_proj"), of_attention(".k_proj"), of_attention(".v_proj")},
                            shapes, init),
                        .out = add_linear(attention, of_attention(".o_proj"), shapes, init)},
          .mlp = {.layer = &mlp,
                  .norm = Norm(mlp_norm, shapes, options_.norm_eps),
                  .inner = add_stacked(mlp, {of_mlp(".gate_proj"), of_mlp(".up_proj")}, shapes, init),
                  .outer = add_linear(mlp, of_mlp(".down_proj"), shapes, init)}};
}

at::Tensor Llama::block_forward(std::size_t number, const at::Tensor& x, const Pass& pass) const {
  const Block& block = blocks_[number];
  const at::Tensor middle = x + block.attention.forward(*block.layer, x, attend_as(pass.attention, number));
  return middle + block.mlp.forward(*block.layer, middle, {ops::swiglu});
}

std::string Llama::hugging_face_config() const {
  const nlohmann::json config{
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"vocab_size", options_.vocab_size},
      {"hidden_size", options_.hidden_size},
      {"intermediate_size", options_.intermediate_size},
      {"num_hidden_layers", options_.layers},
      {"num_attention_heads", options_.heads},
      {"num_key_value_heads", options_.kv_heads},
      {"head_dim", options_.hidden_size / options_.heads},
      {"max_position_embeddings", options_.max_positions},
      {"rms_norm_eps", options_.norm_eps},
      {"rope_theta", options_.rope_theta},
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", options_.rope_theta}}},
      {"tie_word_embeddings", options_.tie_embeddings},
      {"hidden_act", "silu"},
      {"attention_bias", false},
      {"mlp_bias", false},
      {"initializer_range", options_.init_std},
      {"torch_dtype", "float32"},
      {"dtype", "float32"}};
  return config.dump(2) + "\n";
}

}  // namespace echelon
