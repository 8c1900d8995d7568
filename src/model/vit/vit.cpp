#include "model/vit/vit.h"

#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "model/patches.h"

namespace echelon {
namespace {

using Shape = std::vector<std::int64_t>;
using Parts = std::vector<Parameter::Part>;

constexpr InitSpec kZero{InitSpec::Kind::kConstant, 0.0F};

InitSpec normal(const ModelOptions& options) {
  return {InitSpec::Kind::kNormal, static_cast<float>(options.init_std)};
}

}  // namespace

Vit::Vit(const ModelOptions& options, const ModelTypes& types)
    : ImageClassifier(types.output), options_(options) {
  add_embeddings();
  for (std::int64_t i = 0; i < options.layers; ++i) add_block(i);
  add_head();
}

std::int64_t Vit::tokens() const {
  const std::int64_t across = options_.image_size / options_.patch_size;
  return across * across + 1;
}

void Vit::add_embeddings() {
  const std::string prefix = "vit.embeddings";
  Layer& layer = *layers_.emplace_back(std::make_unique<Layer>(prefix, Layer::Role::kEmbedding));
  const std::int64_t h = options_.hidden_size;
  const std::int64_t p = options_.patch_size;
  class_token_ = &layer.add(prefix + ".cls_token", Shape{1, 1, h}, normal(options_));
  positions_ = &layer.add(prefix + ".position_embeddings", Shape{1, tokens(), h}, normal(options_));
  patch_ = add_affine(layer, prefix + ".patch_embeddings.projection", {h, options_.channels, p, p},
                      normal(options_), kZero);
}

void Vit::add_block(std::int64_t index) {
  const std::string prefix = str("vit.encoder.layer.", index);
  Layer& layer = *layers_.emplace_back(std::make_unique<Layer>(prefix, Layer::Role::kBlock));
  const std::int64_t h = options_.hidden_size;
  const std::int64_t inner = options_.intermediate_size;
  const auto norm = [&](const std::string& name) {
    return add_norm(layer.add_layer(prefix + name), prefix + name, h);
  };
  const auto dense = [&](Layer& own, const std::string& name, std::int64_t out, std::int64_t in) {
    return add_affine(own, prefix + name, {out, in}, normal(options_), kZero);
  };
  const auto stacked = [&](const std::string& kind, const Shape& shape) {
    Parts parts;
    for (const char* which : {"query", "key", "value"})
      parts.push_back({str(prefix, ".attention.attention.", which, ".", kind), shape});
    return parts;
  };
  Block block{.layer = &layer, .name = prefix};
  block.norm_before = norm(".layernorm_before");
  Layer& attention = layer.add_layer(prefix + ".attention");
  block.qkv = {&attention, &attention.add(stacked("weight", {h, h}), normal(options_)),
               &attention.add(stacked("bias", {h}), kZero)};
  block.attention_out = dense(attention, ".attention.output.dense", h, h);
  block.norm_after = norm(".layernorm_after");
  block.intermediate = dense(layer.add_layer(prefix + ".intermediate"), ".intermediate.dense", inner, h);
  block.output = dense(layer.add_layer(prefix + ".output"), ".output.dense", h, inner);
  blocks_.push_back(block);
}

void Vit::add_head() {
  Layer& head = *layers_.emplace_back(std::make_unique<Layer>("classifier", Layer::Role::kHead));
  const std::int64_t h = options_.hidden_size;
  final_norm_ = add_norm(head.add_layer("vit.layernorm"), "vit.layernorm", h);
  classifier_ = add_affine(head, "classifier", {options_.classes, h}, normal(options_), kZero);
}

at::Tensor Vit::embedded(const at::Tensor& images, const Batch& draws) const {
  const at::Tensor patches = cut_patches(images.to(patch_.weight->value.scalar_type()), options_.patch_size,
                                         PatchLayout::kChannelsFirst);
  const at::Tensor projected =
      at::linear(patches, ops::use(*patch_.weight).flatten(1), ops::use(*patch_.bias));
  const at::Tensor x = with_class_token(projected, ops::use(*class_token_), ops::use(*positions_));
  return ops::dropout(x, options_.dropout, draws, "vit.embeddings");
}

at::Tensor Vit::block_forward(const Block& block, const at::Tensor& x, const Batch& draws) const {
  const std::int64_t head_dim = options_.hidden_size / options_.heads;
  const ops::AttentionOptions attention{.heads = options_.heads,
                                        .kv_heads = options_.heads,
                                        .head_dim = head_dim,
                                        .causal = false,
                                        .scale = 1.0F / std::sqrt(static_cast<float>(head_dim))};
  const double eps = options_.norm_eps;
  const at::Tensor attended = block.qkv.layer->run(
      layer_norm(block.norm_before, x, eps),
      [this, &block, attention, draws,
       again = layer_norm_again(*block.layer, block.norm_before, x, eps)](const at::Tensor& in) {
        const at::Tensor heads =
            ops::self_attention(linear(block.qkv, in, again), draws.by_sample, attention, {});
        return ops::dropout(linear(block.attention_out, heads), options_.dropout, draws,
                            block.name + ".attention");
      });
  const at::Tensor middle = x + attended;
  const at::Tensor inner = block.intermediate.layer->run(
      layer_norm(block.norm_after, middle, eps),
      [&block, again = layer_norm_again(*block.layer, block.norm_after, middle, eps)](const at::Tensor& in) {
        return linear(block.intermediate, in, again);
      });
  return middle + block.output.layer->run(inner, [this, &block, draws](const at::Tensor& in) {
    ops::Recompute activated_again;
    if (block.layer->recomputes_cheap()) activated_again = [kept = in.detach()] { return at::gelu(kept); };
    return ops::dropout(linear(block.output, at::gelu(in), activated_again), options_.dropout, draws,
                        block.name + ".output");
  });
}

at::Tensor Vit::logits(const Batch& batch) {
  const Batch draws = draws_of(batch, tokens());
  at::Tensor x = patch_.layer->run(
      batch.images, [this, draws](const at::Tensor& images) { return embedded(images, draws); });
  for (const Block& block : blocks_) {
    x = block.layer->run(
        x, [this, &block, draws](const at::Tensor& in) { return block_forward(block, in, draws); });
  }
  return classifier_.layer->run(x, [this](const at::Tensor& in) {
    const at::Tensor first = in.view({-1, tokens(), options_.hidden_size}).select(1, 0).contiguous();
    return linear(classifier_, layer_norm(final_norm_, first, options_.norm_eps));
  });
}

std::string Vit::hugging_face_config() const {
  nlohmann::json names = nlohmann::json::object();
  nlohmann::json numbers = nlohmann::json::object();
  for (std::int64_t i = 0; i < options_.classes; ++i) {
    names[std::to_string(i)] = str("LABEL_", i);
    numbers[str("LABEL_", i)] = i;
  }
  const nlohmann::json config{{"architectures", {"ViTForImageClassification"}},
                              {"model_type", "vit"},
                              {"hidden_size", options_.hidden_size},
                              {"intermediate_size", options_.intermediate_size},
                              {"num_hidden_layers", options_.layers},
                              {"num_attention_heads", options_.heads},
                              {"hidden_act", "gelu"},
                              {"hidden_dropout_prob", options_.dropout},
                              {"attention_probs_dropout_prob", 0.0},
                              {"initializer_range", options_.init_std},
                              {"layer_norm_eps", options_.norm_eps},
                              {"image_size", options_.image_size},
                              {"patch_size", options_.patch_size},
                              {"num_channels", options_.channels},
                              {"qkv_bias", true},
                              {"id2label", names},
                              {"label2id", numbers},
                              {"torch_dtype", "float32"},
                              {"dtype", "float32"}};
  return config.dump(2) + "\n";
}

double Vit::flops_per_sample(const SampleShape& /*shape*/) const {
  const auto count = static_cast<double>(tokens());
  const double h = static_cast<double>(options_.hidden_size);
  const double block = 4 * h * h + 2 * h * static_cast<double>(options_.intermediate_size);
  const double attention = 12.0 * h * count;
  return static_cast<double>(options_.layers) * count * (6 * block + attention) +
         6 * ((count - 1) * static_cast<double>(patch_.weight->numel()) +
              static_cast<double>(classifier_.weight->numel()));
}

}  // namespace echelon
