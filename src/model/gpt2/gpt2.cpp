#include "model/gpt2/gpt2.h"

#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/str.h"

namespace echelon {
namespace {

using Shape = std::vector<std::int64_t>;

InitSpec normal(double deviation) {
  return {InitSpec::Kind::kNormal, static_cast<float>(deviation)};
}

}  // namespace

Gpt2::Gpt2(const ModelOptions& options, const ModelTypes& types, at::Device /*device*/)
    : options_(options), output_(types.output) {
  add_embedding();
  for (std::int64_t i = 0; i < options.layers; ++i) add_block(i);
  add_head();
}

void Gpt2::add_embedding() {
  const Shape shape{options_.vocab_size, options_.hidden_size};
  embedding_layer_ =
      layers_.emplace_back(std::make_unique<Layer>("transformer.wte", Layer::Role::kEmbedding)).get();
  if (options_.tie_embeddings) {
    shared_.push_back(
        {std::make_unique<Parameter>("transformer.wte.weight", shape, normal(options_.init_std)),
         {embedding_layer_}});
    embedding_ = shared_.back().parameter.get();
  } else {
    embedding_ = &embedding_layer_->add("transformer.wte.weight", shape, normal(options_.init_std));
  }
  position_layer_ = &embedding_layer_->add_layer("transformer.wpe");
  positions_ =
      &position_layer_->add("transformer.wpe.weight", Shape{options_.max_positions, options_.hidden_size},
                            normal(options_.init_std));
}

void Gpt2::add_block(std::int64_t index) {
  const std::string prefix = str("transformer.h.", index);
  Layer& layer = *layers_.emplace_back(std::make_unique<Layer>(prefix, Layer::Role::kBlock));
  const std::int64_t h = options_.hidden_size;
  const std::int64_t inner = options_.intermediate_size;
  // What is added to the residual stream starts smaller: its variance would grow with every block.
  const double residual = options_.init_std / std::sqrt(2.0 * static_cast<double>(options_.layers));
  const auto norm = [&](const std::string& name) { return add_norm(layer.add_layer(name), name, h); };
  const auto dense = [](Layer& own, const std::string& name, std::int64_t out, std::int64_t in,
                        double deviation) {
    return add_affine(own, name, {out, in}, normal(deviation), {InitSpec::Kind::kConstant, 0.0F});
  };
  const Affine attention_norm = norm(prefix + ".ln_1");
  Layer& attention = layer.add_layer(prefix + ".attn");
  const Affine mlp_norm = norm(prefix + ".ln_2");
  Layer& mlp = layer.add_layer(prefix + ".mlp");
  blocks_.push_back({.layer = &layer,
                     .attention_layer = &attention,
                     .mlp_layer = &mlp,
                     .attention_norm = attention_norm,
                     .mlp_norm = mlp_norm,
                     .qkv = dense(attention, prefix + ".attn.c_attn", 3 * h, h, options_.init_std),
                     .attention_out = dense(attention, prefix + ".attn.c_proj", h, h, residual),
                     .up = dense(mlp, prefix + ".mlp.c_fc", inner, h, options_.init_std),
                     .down = dense(mlp, prefix + ".mlp.c_proj", h, inner, residual)});
}

void Gpt2::add_head() {
  head_layer_ = layers_.emplace_back(std::make_unique<Layer>("lm_head", Layer::Role::kHead)).get();
  final_norm_ =
      add_norm(head_layer_->add_layer("transformer.ln_f"), "transformer.ln_f", options_.hidden_size);
  if (options_.tie_embeddings) {
    head_ = embedding_;
    shared_.back().users.push_back(head_layer_);
  } else {
    head_ = &head_layer_->add("lm_head.weight", Shape{options_.vocab_size, options_.hidden_size},
                              normal(options_.init_std));
  }
}

at::Tensor Gpt2::normed(const Affine& norm, const at::Tensor& x) const {
  return norm.layer->run(x, [eps = options_.norm_eps, norm](const at::Tensor& in) {
    return ops::layer_norm(in, *norm.weight, *norm.bias, eps);
  });
}

ops::Recompute Gpt2::normed_again(const Block& block, const Affine& norm, const at::Tensor& x) const {
  // A norm gathered on its own has no weights when the product's backward runs.
  if (!block.layer->recomputes_cheap() || norm.layer->hooked()) return {};
  return [eps = options_.norm_eps, norm, x = x.detach()] {
    return ops::layer_norm(x, *norm.weight, *norm.bias, eps);
  };
}

ops::AttentionOptions Gpt2::attention_options() const {
  const std::int64_t head_dim = options_.hidden_size / options_.heads;
  return {.heads = options_.heads,
          .kv_heads = options_.heads,
          .head_dim = head_dim,
          .causal = true,
          .scale = 1.0F / std::sqrt(static_cast<float>(head_dim))};
}

at::Tensor Gpt2::block_forward(std::int64_t index, const at::Tensor& x, const Pass& pass) const {
  const Block& block = blocks_[static_cast<std::size_t>(index)];
  const at::Tensor attended = block.attention_layer->run(
      normed(block.attention_norm, x),
      [&block, index, attention = pass.attention,
       again = normed_again(block, block.attention_norm, x)](const at::Tensor& in) {
        const at::Tensor heads = attention(index, ops::linear(in, *block.qkv.weight, again, block.qkv.bias));
        return ops::linear(heads, *block.attention_out.weight, {}, block.attention_out.bias);
      });
  const at::Tensor middle =
      x + ops::dropout(attended, options_.dropout, pass.batch, block.attention_layer->name());
  const at::Tensor mlp = block.mlp_layer->run(
      normed(block.mlp_norm, middle),
      [&block, again = normed_again(block, block.mlp_norm, middle)](const at::Tensor& in) {
        const at::Tensor up = ops::linear(in, *block.up.weight, again);
        ops::Recompute active_again;
        if (block.layer->recomputes_cheap()) {
          active_again = [&block, kept = up.detach()] { return ops::bias_gelu(kept, *block.up.bias); };
        }
        return ops::linear(ops::bias_gelu(up, *block.up.bias), *block.down.weight, active_again,
                           block.down.bias);
      });
  return middle + ops::dropout(mlp, options_.dropout, pass.batch, block.mlp_layer->name());
}

at::Tensor Gpt2::body(const at::Tensor& ids, const Pass& pass) const {
  at::Tensor x = embedding_layer_->run(ids, [this, pass](const at::Tensor& flat) {
    const at::Tensor places = position_layer_->run(
        pass.positions, [this](const at::Tensor& at) { return ops::embedding(at, *positions_); });
    return ops::dropout(ops::embedding(flat, *embedding_) + places, options_.dropout, pass.batch,
                        embedding_layer_->name());
  });
  for (std::int64_t i = 0; i < options_.layers; ++i) {
    x = blocks_[static_cast<std::size_t>(i)].layer->run(
        x, [this, i, pass](const at::Tensor& in) { return block_forward(i, in, pass); });
  }
  return x;
}

at::Tensor Gpt2::loss(const Batch& batch, double gradient_scale) {
  const BlockAttention attention = [sequences = batch.sequences, options = attention_options()](
                                       std::int64_t, const at::Tensor& qkv) {
    return ops::self_attention(qkv, sequences, options, {});
  };
  const Pass pass{batch.sequences->positions(batch.ids.device()), attention, batch};
  return head_layer_->run(body(batch.ids, pass), [=, this, targets = batch.targets](const at::Tensor& x) {
    return ops::linear_cross_entropy(normed(final_norm_, x), *head_, targets, gradient_scale, output_);
  });
}

std::unique_ptr<Decoder> Gpt2::decoder(const Batch& prompts) const {
  CausalParts parts{
      .hidden =
          [this](const at::Tensor& ids, const at::Tensor& positions, const BlockAttention& attention) {
            return body(ids, {positions, attention, {}});
          },
      .logits =
          [this](const at::Tensor& hidden) {
            return head_layer_->run(hidden, [this](const at::Tensor& x) {
              return ops::linear(normed(final_norm_, x), *head_).to(at::kFloat);
            });
          },
      .attention = attention_options(),
      .blocks = options_.layers,
      .rotary = {},
      .max_positions = options_.max_positions};
  return std::make_unique<CausalDecoder>(std::move(parts), prompts);
}

std::string Gpt2::hugging_face_config() const {
  const nlohmann::json config{{"architectures", {"GPT2LMHeadModel"}},
                              {"model_type", "gpt2"},
                              {"vocab_size", options_.vocab_size},
                              {"n_positions", options_.max_positions},
                              {"n_ctx", options_.max_positions},
                              {"n_embd", options_.hidden_size},
                              {"n_inner", options_.intermediate_size},
                              {"n_layer", options_.layers},
                              {"n_head", options_.heads},
                              {"activation_function", "gelu_new"},
                              {"layer_norm_epsilon", options_.norm_eps},
                              {"initializer_range", options_.init_std},
                              {"embd_pdrop", options_.dropout},
                              {"resid_pdrop", options_.dropout},
                              {"attn_pdrop", 0.0},
                              {"tie_word_embeddings", options_.tie_embeddings},
                              {"torch_dtype", "float32"},
                              {"dtype", "float32"}};
  return config.dump(2) + "\n";
}

double Gpt2::flops_per_sample(const SampleShape& shape) const {
  // The head multiplies also when tied; looking up tokens and positions does not.
  const auto h = static_cast<double>(options_.hidden_size);
  const double embedding = static_cast<double>(options_.vocab_size) * h;
  const double looked_up =
      static_cast<double>(options_.max_positions) * h + (options_.tie_embeddings ? 0.0 : embedding);
  const double matrices = static_cast<double>(numel()) - looked_up;
  const double attention = 12.0 * static_cast<double>(options_.layers * options_.hidden_size * shape.tokens);
  return static_cast<double>(shape.tokens) * (6.0 * matrices + attention);
}

}  // namespace echelon
