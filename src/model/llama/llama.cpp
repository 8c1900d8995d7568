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
    : options_(options), output_(types.output), cos_sin_(rotary_table(options, types.buffer, device)) {
  add_embedding();
  for (std::int64_t i = 0; i < options.layers; ++i) add_block(i);
  add_head();
}

void Llama::add_embedding() {
  const InitSpec normal{InitSpec::Kind::kNormal, static_cast<float>(options_.init_std)};
  const std::vector<std::int64_t> shape{options_.vocab_size, options_.hidden_size};
  embedding_layer_ =
      layers_.emplace_back(std::make_unique<Layer>("model.embed_tokens", Layer::Role::kEmbedding)).get();
  if (options_.tie_embeddings) {
    shared_.push_back(
        {std::make_unique<Parameter>("model.embed_tokens.weight", shape, normal), {embedding_layer_}});
    embedding_ = shared_.back().parameter.get();
  } else {
    embedding_ = &embedding_layer_->add("model.embed_tokens.weight", shape, normal);
  }
}

void Llama::add_block(std::int64_t index) {
  const InitSpec normal{InitSpec::Kind::kNormal, static_cast<float>(options_.init_std)};
  const InitSpec one{InitSpec::Kind::kConstant, 1.0F};
  const std::string prefix = str("model.layers.", index);
  Layer& layer = *layers_.emplace_back(std::make_unique<Layer>(prefix, Layer::Role::kBlock));
  const std::int64_t h = options_.hidden_size;
  const std::int64_t head_dim = h / options_.heads;
  const std::int64_t kv = options_.kv_heads * head_dim;
  const std::int64_t inner = options_.intermediate_size;
  using Shape = std::vector<std::int64_t>;
  using Parts = std::vector<Parameter::Part>;
  Layer& input_norm = layer.add_layer(prefix + ".input_layernorm");
  Layer& attention = layer.add_layer(prefix + ".self_attn");
  Layer& mlp_norm = layer.add_layer(prefix + ".post_attention_layernorm");
  Layer& mlp = layer.add_layer(prefix + ".mlp");
  blocks_.push_back(
      {.layer = &layer,
       .input_norm_layer = &input_norm,
       .attention_layer = &attention,
       .mlp_norm_layer = &mlp_norm,
       .mlp_layer = &mlp,
       .input_norm = &input_norm.add(prefix + ".input_layernorm.weight", Shape{h}, one),
       .qkv = &attention.add(Parts{{prefix + ".self_attn.q_proj.weight", {h, h}},
                                   {prefix + ".self_attn.k_proj.weight", {kv, h}},
                                   {prefix + ".self_attn.v_proj.weight", {kv, h}}},
                             normal),
       .attention_out = &attention.add(prefix + ".self_attn.o_proj.weight", Shape{h, h}, normal),
       .mlp_norm = &mlp_norm.add(prefix + ".post_attention_layernorm.weight", Shape{h}, one),
       .gate_up = &mlp.add(Parts{{prefix + ".mlp.gate_proj.weight", {inner, h}},
                                 {prefix + ".mlp.up_proj.weight", {inner, h}}},
                           normal),
       .down = &mlp.add(prefix + ".mlp.down_proj.weight", Shape{h, inner}, normal)});
}

void Llama::add_head() {
  const InitSpec normal{InitSpec::Kind::kNormal, static_cast<float>(options_.init_std)};
  const std::vector<std::int64_t> hidden{options_.hidden_size};
  head_layer_ = layers_.emplace_back(std::make_unique<Layer>("lm_head", Layer::Role::kHead)).get();
  final_norm_layer_ = &head_layer_->add_layer("model.norm");
  final_norm_ =
      &final_norm_layer_->add("model.norm.weight", hidden, InitSpec{InitSpec::Kind::kConstant, 1.0F});
  if (options_.tie_embeddings) {
    head_ = embedding_;
    shared_.back().users.push_back(head_layer_);
  } else {
    head_ = &head_layer_->add("lm_head.weight",
                              std::vector<std::int64_t>{options_.vocab_size, options_.hidden_size}, normal);
  }
}

at::Tensor Llama::normed(const Layer& layer, Parameter& weight, const at::Tensor& x) const {
  return layer.run(
      x, [this, &weight](const at::Tensor& in) { return ops::rms_norm(in, weight, options_.norm_eps); });
}

ops::Recompute Llama::normed_again(const Block& block, const Layer& layer, Parameter& weight,
                                   const at::Tensor& x) const {
  // A norm gathered on its own has no weights when the product's backward runs.
  if (!block.layer->recomputes_cheap() || layer.hooked()) return {};
  return [this, &weight, x = x.detach()] { return ops::rms_norm(x, weight, options_.norm_eps); };
}

ops::AttentionOptions Llama::attention_options() const {
  const std::int64_t head_dim = options_.hidden_size / options_.heads;
  return {.heads = options_.heads,
          .kv_heads = options_.kv_heads,
          .head_dim = head_dim,
          .causal = true,
          .scale = 1.0F / std::sqrt(static_cast<float>(head_dim))};
}

at::Tensor Llama::block_forward(std::int64_t index, const at::Tensor& x,
                                const BlockAttention& attention) const {
  const Block& block = blocks_[static_cast<std::size_t>(index)];
  const at::Tensor attended = block.attention_layer->run(
      normed(*block.input_norm_layer, *block.input_norm, x),
      [&block, index, attention,
       again = normed_again(block, *block.input_norm_layer, *block.input_norm, x)](const at::Tensor& in) {
        return ops::linear(attention(index, ops::linear(in, *block.qkv, again)), *block.attention_out);
      });
  const at::Tensor middle = x + attended;
  const at::Tensor mlp = block.mlp_layer->run(
      normed(*block.mlp_norm_layer, *block.mlp_norm, middle),
      [&block,
       again = normed_again(block, *block.mlp_norm_layer, *block.mlp_norm, middle)](const at::Tensor& in) {
        const at::Tensor gate_up = ops::linear(in, *block.gate_up, again);
        ops::Recompute gated_again;
        if (block.layer->recomputes_cheap()) {
          gated_again = [kept = gate_up.detach()] { return ops::swiglu(kept); };
        }
        return ops::linear(ops::swiglu(gate_up), *block.down, gated_again);
      });
  return middle + mlp;
}

at::Tensor Llama::body(const at::Tensor& ids, const BlockAttention& attention) const {
  at::Tensor x = embedding_layer_->run(
      ids, [this](const at::Tensor& flat) { return ops::embedding(flat, *embedding_); });
  for (std::int64_t i = 0; i < options_.layers; ++i) {
    x = blocks_[static_cast<std::size_t>(i)].layer->run(
        x, [this, i, attention](const at::Tensor& in) { return block_forward(i, in, attention); });
  }
  return x;
}

at::Tensor Llama::loss(const Batch& batch, double gradient_scale) {
  const BlockAttention attention = [sequences = batch.sequences, options = attention_options(),
                                    rotary = cos_sin_](std::int64_t, const at::Tensor& qkv) {
    return ops::self_attention(qkv, sequences, options, {.rotary = rotary, .bias = {}});
  };
  return head_layer_->run(body(batch.ids, attention),
                          [=, this, targets = batch.targets](const at::Tensor& x) {
                            return ops::linear_cross_entropy(normed(*final_norm_layer_, *final_norm_, x),
                                                             *head_, targets, gradient_scale, output_);
                          });
}

std::unique_ptr<Decoder> Llama::decoder(const Batch& prompts) const {
  CausalParts parts{
      .hidden = [this](const at::Tensor& ids, const at::Tensor& /*positions*/,
                       const BlockAttention& attention) { return body(ids, attention); },
      .logits =
          [this](const at::Tensor& hidden) {
            return head_layer_->run(hidden, [this](const at::Tensor& x) {
              return ops::linear(normed(*final_norm_layer_, *final_norm_, x), *head_).to(at::kFloat);
            });
          },
      .attention = attention_options(),
      .blocks = options_.layers,
      .rotary = cos_sin_,
      .max_positions = options_.max_positions};
  return std::make_unique<CausalDecoder>(std::move(parts), prompts);
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

double Llama::flops_per_sample(const SampleShape& shape) const {
  // The head multiplies also when tied; the embedding look-up does not.
  const double embedding = static_cast<double>(options_.vocab_size * options_.hidden_size);
  const double matrices = static_cast<double>(numel()) - (options_.tie_embeddings ? 0.0 : embedding);
  const double attention = 12.0 * static_cast<double>(options_.layers * options_.hidden_size * shape.tokens);
  return static_cast<double>(shape.tokens) * (6.0 * matrices + attention);
}

}  // namespace echelon
