#include "shapes/kinds.h"

namespace echelon::shapes {
namespace {

/// Patches of an image plus the class token.
std::int64_t vit_tokens(const ModelOptions& model) {
  const std::int64_t across = model.image_size / model.patch_size;
  return across * across + 1;
}

}  // namespace

Layers vit(const ModelOptions& model) {
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t patch = model.patch_size;
  Tensors block;
  add_layer_norm(block, "layernorm_before", hidden);
  for (const char* part : {"query", "key", "value"})
    add_affine(block, std::string("attention.attention.") + part, hidden, hidden);
  add_affine(block, "attention.output.dense", hidden, hidden);
  add_layer_norm(block, "layernorm_after", hidden);
  add_affine(block, "intermediate.dense", model.intermediate_size, hidden);
  add_affine(block, "output.dense", hidden, model.intermediate_size);
  Tensors end;
  add_layer_norm(end, "vit.layernorm", hidden);
  add_affine(end, "classifier", model.classes, hidden).table = true;
  return {{"vit.embeddings.",
           {},
           {{"cls_token", {1, 1, hidden}},
            {"position_embeddings", {1, vit_tokens(model), hidden}},
            {"patch_embeddings.projection.weight", {hidden, model.channels, patch, patch}},
            {"patch_embeddings.projection.bias", {hidden}}}},
          {"vit.encoder.layer.", model.layers, std::move(block)},
          {"", {}, std::move(end)}};
}

Layers deepvit(const ModelOptions& model) {
  const std::int64_t hidden = model.hidden_size;
  Tensors begin{{"pos_embedding", {1, vit_tokens(model), hidden}}, {"cls_token", {1, 1, hidden}}};
  add_affine(begin, "to_patch_embedding.1", hidden, model.channels * model.patch_size * model.patch_size)
      .table = true;
  Tensors block;
  add_layer_norm(block, "0.fn.norm", hidden);
  block.push_back({"0.fn.fn.to_qkv.weight", {3 * hidden, hidden}, {hidden, hidden, hidden}});
  // Re-attention: a matrix that mixes the attention maps across heads, and a norm over heads.
  block.push_back({"0.fn.fn.reattn_weights", {model.heads, model.heads}});
  add_layer_norm(block, "0.fn.fn.reattn_norm.1", model.heads);
  add_affine(block, "0.fn.fn.to_out.0", hidden, hidden);
  add_layer_norm(block, "1.fn.norm", hidden);
  add_affine(block, "1.fn.fn.net.0", model.intermediate_size, hidden);
  add_affine(block, "1.fn.fn.net.3", hidden, model.intermediate_size);
  Tensors head;
  add_layer_norm(head, "mlp_head.0", hidden);
  add_affine(head, "mlp_head.1", model.classes, hidden).table = true;
  return {{"", {}, std::move(begin)},
          {"transformer.layers.", model.layers, std::move(block)},
          {"", {}, std::move(head)}};
}

Layers cnn(const ModelOptions& model) {
  constexpr std::int64_t kKernel = 3;
  constexpr std::int64_t kChannels1 = 32;
  constexpr std::int64_t kChannels2 = 64;
  constexpr std::int64_t kHidden = 128;
  // Two convolutions without padding, then a pool of 2 x 2.
  const std::int64_t side = (model.image_size - 2 * (kKernel - 1)) / 2;
  Tensors all{{"conv1.weight", {kChannels1, model.channels, kKernel, kKernel}},
              {"conv1.bias", {kChannels1}},
              {"conv2.weight", {kChannels2, kChannels1, kKernel, kKernel}},
              {"conv2.bias", {kChannels2}}};
  add_affine(all, "fc1", kHidden, kChannels2 * side * side);
  add_affine(all, "fc2", model.classes, kHidden).table = true;
  return {{"", {}, std::move(all)}};
}

}  // namespace echelon::shapes
