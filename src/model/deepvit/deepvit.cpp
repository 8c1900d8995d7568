#include "model/deepvit/deepvit.h"

#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/str.h"

namespace echelon {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr InitSpec kUnitNormal{InitSpec::Kind::kNormal, 1.0F};

}  // namespace

DeepVit::DeepVit(const ModelOptions& options, const ModelTypes& types)
    : PatchClassifier(options, types, PatchLayout::kChannelsLast) {
  add_embeddings();
  for (std::int64_t i = 0; i < options.layers; ++i) add_block(i);
  add_head("mlp_head", "mlp_head.0", "mlp_head.1");
}

void DeepVit::add_embeddings() {
  Layer& layer = add_layer("to_patch_embedding", Layer::Role::kEmbedding);
  const std::int64_t values = options_.channels * options_.patch_size * options_.patch_size;
  add_positions(layer, "pos_embedding");
  add_class_token(layer, "cls_token");
  add_projection(layer, "to_patch_embedding.1", {options_.hidden_size, values});
}

void DeepVit::add_block(std::int64_t index) {
  const std::string prefix = str("transformer.layers.", index);
  Layer& layer = add_block_layer(prefix);
  const std::int64_t h = options_.hidden_size;
  const std::int64_t inner = options_.intermediate_size;
  const auto norm = [&](const std::string& name) {
    return add_norm(layer.add_layer(prefix + name), prefix + name, h);
  };
  const auto dense = [&](Layer& own, const std::string& name, std::int64_t out, std::int64_t in) {
    return add_dense(own, prefix + name, out, in);
  };
  Block block{.layer = &layer, .name = prefix};
  block.attention_norm = norm(".0.fn.norm");
  Layer& attention = layer.add_layer(prefix + ".0.fn.fn");
  block.qkv = &attention.add(prefix + ".0.fn.fn.to_qkv.weight", Shape{3 * h, h}, normal());
  block.mixing =
      &attention.add(prefix + ".0.fn.fn.reattn_weights", Shape{options_.heads, options_.heads}, kUnitNormal);
  block.mixing_norm = add_norm(attention, prefix + ".0.fn.fn.reattn_norm.1", options_.heads);
  block.attention_out = dense(attention, ".0.fn.fn.to_out.0", h, h);
  block.mlp_norm = norm(".1.fn.norm");
  block.up = dense(layer.add_layer(prefix + ".1.fn.fn.net.0"), ".1.fn.fn.net.0", inner, h);
  block.down = dense(layer.add_layer(prefix + ".1.fn.fn.net.3"), ".1.fn.fn.net.3", h, inner);
  blocks_.push_back(block);
}

at::Tensor DeepVit::attended(const Block& block, const at::Tensor& qkv, const Batch& draws) const {
  const std::int64_t heads = options_.heads;
  const std::int64_t head_dim = options_.hidden_size / heads;
  // [3, samples, heads, tokens, head_dim]
  const at::Tensor split = qkv.view({-1, tokens(), 3, heads, head_dim}).permute({2, 0, 3, 1, 4});
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  const at::Tensor scores = at::matmul(split.select(0, 0) * scale, split.select(0, 1).transpose(2, 3));
  const at::Tensor maps = ops::dropout(at::softmax(scores, 3), options_.dropout, draws, block.name + ".maps");
  // Heads stand last where they are mixed and normed.
  const at::Tensor mixed = at::matmul(maps.permute({0, 2, 3, 1}), ops::use(*block.mixing));
  const at::Tensor normed_maps = at::layer_norm(mixed, {heads}, ops::use(*block.mixing_norm.weight),
                                                ops::use(*block.mixing_norm.bias), options_.norm_eps);
  const at::Tensor out = at::matmul(normed_maps.permute({0, 3, 1, 2}), split.select(0, 2));
  return out.permute({0, 2, 1, 3}).reshape({qkv.size(0), options_.hidden_size});
}

at::Tensor DeepVit::block_forward(std::size_t number, const at::Tensor& x, const Batch& draws) const {
  const Block& block = blocks_[number];
  const double eps = options_.norm_eps;
  const at::Tensor attention = block.attention_out.layer->run(
      layer_norm(block.attention_norm, x, eps),
      [this, &block, draws,
       again = layer_norm_again(*block.layer, block.attention_norm, x, eps)](const at::Tensor& in) {
        const at::Tensor heads = attended(block, ops::linear(in, *block.qkv, again), draws);
        return ops::dropout(linear(block.attention_out, heads), options_.dropout, draws,
                            block.name + ".attention");
      });
  const at::Tensor middle = x + attention;
  const at::Tensor inner =
      block.up.layer->run(layer_norm(block.mlp_norm, middle, eps),
                          [&block, again = layer_norm_again(*block.layer, block.mlp_norm, middle, eps)](
                              const at::Tensor& in) { return linear(block.up, in, again); });
  return middle + block.down.layer->run(inner, [this, &block, draws](const at::Tensor& in) {
    const auto activated = [this, &block, draws](const at::Tensor& from) {
      return ops::dropout(at::gelu(from), options_.dropout, draws, block.name + ".inner");
    };
    ops::Recompute again;
    if (block.layer->recomputes_cheap()) again = [activated, kept = in.detach()] { return activated(kept); };
    return ops::dropout(linear(block.down, activated(in), again), options_.dropout, draws,
                        block.name + ".outer");
  });
}

std::string DeepVit::hugging_face_config() const {
  // transformers has no such model: what this one was built from.
  const nlohmann::json config{{"model_type", "deepvit"},
                              {"hidden_size", options_.hidden_size},
                              {"intermediate_size", options_.intermediate_size},
                              {"num_hidden_layers", options_.layers},
                              {"num_attention_heads", options_.heads},
                              {"dropout", options_.dropout},
                              {"layer_norm_eps", options_.norm_eps},
                              {"image_size", options_.image_size},
                              {"patch_size", options_.patch_size},
                              {"num_channels", options_.channels},
                              {"num_labels", options_.classes}};
  return config.dump(2) + "\n";
}

double DeepVit::flops_per_sample(const SampleShape& /*shape*/) const {
  const double h = static_cast<double>(options_.hidden_size);
  const double heads = static_cast<double>(options_.heads);
  return flops_with((12.0 * h + 6.0 * heads * heads) * static_cast<double>(tokens()));
}

}  // namespace echelon
