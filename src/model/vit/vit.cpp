#include "model/vit/vit.h"

#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/str.h"

namespace echelon {
namespace {

using Shape = std::vector<std::int64_t>;
using Parts = std::vector<Parameter::Part>;

constexpr InitSpec kZero{InitSpec::Kind::kConstant, 0.0F};

}  // namespace

Vit::Vit(const ModelOptions& options, const ModelTypes& types)
    : PatchClassifier(options, types, PatchLayout::kChannelsFirst) {
  add_embeddings();
  for (std::int64_t i = 0; i < options.layers; ++i) add_block(i);
  add_head("classifier", "vit.layernorm", "classifier");
}

void Vit::add_embeddings() {
  const std::string prefix = "vit.embeddings";
  Layer& layer = add_layer(prefix, Layer::Role::kEmbedding);
  const std::int64_t p = options_.patch_size;
  add_class_token(layer, prefix + ".cls_token");
  add_positions(layer, prefix + ".position_embeddings");
  add_projection(layer, prefix + ".patch_embeddings.projection",
                 {options_.hidden_size, options_.channels, p, p});
}

void Vit::add_block(std::int64_t index) {
  const std::string prefix = str("vit.encoder.layer.", index);
  Layer& layer = add_block_layer(prefix);
  const std::int64_t h = options_.hidden_size;
  const std::int64_t inner = options_.intermediate_size;
  const auto norm = [&](const std::string& name) {
    return add_norm(layer.add_layer(prefix + name), prefix + name, h);
  };
  const auto dense = [&](Layer& own, const std::string& name, std::int64_t out, std::int64_t in) {
    return add_dense(own, prefix + name, out, in);
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
  block.qkv = {&attention, &attention.add(stacked("weight", {h, h}), normal()),
               &attention.add(stacked("bias", {h}), kZero)};
  block.attention_out = dense(attention, ".attention.output.dense", h, h);
  block.norm_after = norm(".layernorm_after");
  block.intermediate = dense(layer.add_layer(prefix + ".intermediate"), ".intermediate.dense", inner, h);
  block.output = dense(layer.add_layer(prefix + ".output"), ".output.dense", h, inner);
  blocks_.push_back(block);
}

at::Tensor Vit::block_forward(std::size_t number, const at::Tensor& x, const Batch& draws) const {
  const Block& block = blocks_[number];
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
  return flops_with(12.0 * static_cast<double>(options_.hidden_size * tokens()));
}

}  // namespace echelon
