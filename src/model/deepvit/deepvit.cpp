#include "model/deepvit/deepvit.h"

#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "model/ops/products/product.h"

namespace echelon {
namespace {

constexpr InitSpec kUnitNormal{InitSpec::Kind::kNormal, 1.0F};

}  // namespace

DeepVit::DeepVit(const ModelOptions& options, const ModelTypes& types)
    : PatchClassifier(options, types, PatchLayout::kChannelsLast) {
  add_embeddings();
  for (std::int64_t i = 0; i < options.layers; ++i)
    blocks_.push_back(make_block(str("transformer.layers.", i)));
  add_head("mlp_head", "mlp_head.0", "mlp_head.1");
}

void DeepVit::add_embeddings() {
  Layer& layer = add_layer("to_patch_embedding", Layer::Role::kEmbedding);
  add_positions(layer, "pos_embedding");
  add_class_token(layer, "cls_token");
  add_projection(layer, "to_patch_embedding.1");
}

DeepVit::Block DeepVit::make_block(const std::string& name) {
  Layer& layer = add_block_layer(name);
  const Norm attention_norm(layer.add_layer(name + ".0.fn.norm"), shapes_, options_);
  Layer& attention = layer.add_layer(name + ".0.fn.fn");
  const Linear qkv = add_linear(attention, name + ".0.fn.fn.to_qkv", shapes_, init());
  const std::string mixing = name + ".0.fn.fn.reattn_weights";
  Parameter& mixing_weight = attention.add(mixing, shapes_.at(mixing), kUnitNormal);
  const Linear mixing_norm = add_linear(attention, name + ".0.fn.fn.reattn_norm.1", shapes_, kOnes);
  const Linear out = add_linear(attention, name + ".0.fn.fn.to_out.0", shapes_, init());
  const Norm mlp_norm(layer.add_layer(name + ".1.fn.norm"), shapes_, options_);
  Layer& up = layer.add_layer(name + ".1.fn.fn.net.0");
  Layer& down = layer.add_layer(name + ".1.fn.fn.net.3");
  return {.layer = &layer,
          .attention = {&attention, attention_norm, qkv, out},
          .mixing = &mixing_weight,
          .mixing_norm = mixing_norm,
          .mlp_norm = mlp_norm,
          .up_layer = &up,
          .up = add_linear(up, up.name(), shapes_, init()),
          .down_layer = &down,
          .down = add_linear(down, down.name(), shapes_, init())};
}

at::Tensor DeepVit::attended(const Block& block, const at::Tensor& qkv, const Batch& draws) const {
  const std::int64_t heads = options_.heads;
  const std::int64_t head_dim = options_.hidden_size / heads;
  // [3, samples, heads, tokens, head_dim]
  const at::Tensor split = qkv.view({-1, tokens(), 3, heads, head_dim}).permute({2, 0, 3, 1, 4});
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  const at::Tensor scores = ops::matmul(split.select(0, 0) * scale, split.select(0, 1).transpose(2, 3));
  const at::Tensor maps =
      ops::dropout(at::softmax(scores, 3), options_.dropout, draws, block.layer->name() + ".maps");
  // Mixing and norm act on the last dimension, so heads are moved there.
  const at::Tensor mixed = ops::matmul(maps.permute({0, 2, 3, 1}), ops::use(*block.mixing));
  const at::Tensor normed_maps = at::layer_norm(mixed, {heads}, ops::use(*block.mixing_norm.weight),
                                                ops::use(*block.mixing_norm.bias), options_.norm_eps);
  const at::Tensor out = ops::matmul(normed_maps.permute({0, 3, 1, 2}), split.select(0, 2));
  return out.permute({0, 2, 1, 3}).reshape({qkv.size(0), options_.hidden_size});
}

at::Tensor DeepVit::block_forward(std::size_t number, const at::Tensor& x, const Batch& draws) const {
  const Block& block = blocks_[number];
  const std::string& name = block.layer->name();
  const Attend attend = [this, &block, draws](const at::Tensor& qkv, const LayerInputs&) {
    return attended(block, qkv, draws);
  };
  Residual stream(x);
  const at::Tensor middle = x + ops::dropout(block.attention.forward(*block.layer, stream, attend),
                                             options_.dropout, draws, name + ".attention");
  const at::Tensor inner = block.up_layer->run(
      block.mlp_norm.forward(middle), [&block, again = block.mlp_norm.again(*block.layer, middle)](
                                          const at::Tensor& in) { return block.up.forward(in, again); });
  const at::Tensor out = block.down_layer->run(inner, [this, &block, draws](const at::Tensor& in) {
    const auto activated = [this, &block, draws](const at::Tensor& from) {
      return ops::dropout(at::gelu(from), options_.dropout, draws, block.layer->name() + ".inner");
    };
    ops::Recompute again;
    if (block.layer->recomputes_cheap()) again = [activated, kept = in.detach()] { return activated(kept); };
    return block.down.forward(activated(in), again);
  });
  return middle + ops::dropout(out, options_.dropout, draws, name + ".outer");
}

std::string DeepVit::hugging_face_config() const {
  // transformers has no such model, so this lists the options of this one.
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

SampleFlops DeepVit::flops_per_sample(const SampleShape& /*shape*/) const {
  const double h = static_cast<double>(options_.hidden_size);
  const double heads = static_cast<double>(options_.heads);
  return flops_with((12.0 * h + 6.0 * heads * heads) * static_cast<double>(tokens()));
}

}  // namespace echelon
