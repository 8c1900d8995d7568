#include <ATen/ATen.h>

#include <cmath>

#include "base/str.h"
#include "reference/models.h"

namespace echelon::reference {
namespace {

/// [channels, height, width] in the type of the weights.
at::Tensor image_of(const SampleBatch& sample, const Pass& pass) {
  return at::tensor(sample.images, at::kFloat)
      .view(sample.image_shape)
      .to(pass.weights.begin()->second.scalar_type());
}

/// An image [channels, height, width] as rows of patches, each flattened in this order of its dimensions:
/// `channels_last` or first, then row and column within the patch.
at::Tensor patches_of(const at::Tensor& image, const ModelOptions& model, bool channels_last) {
  const std::int64_t side = model.patch_size;
  std::vector<at::Tensor> patches;
  for (std::int64_t row = 0; row + side <= image.size(1); row += side) {
    for (std::int64_t column = 0; column + side <= image.size(2); column += side) {
      const at::Tensor patch = image.narrow(1, row, side).narrow(2, column, side);
      patches.push_back((channels_last ? patch.permute({1, 2, 0}) : patch).reshape({-1}));
    }
  }
  return at::stack(patches);
}

/// The class token and the patches with their positions.
at::Tensor embedded_image(const at::Tensor& patches, const at::Tensor& class_token,
                          const at::Tensor& positions) {
  return at::cat({class_token.view({1, -1}), patches}) + positions.squeeze(0);
}

at::Tensor vit_block(std::int64_t number, const at::Tensor& x, const Pass& pass) {
  const ModelOptions& model = pass.model;
  const std::string block = str("vit.encoder.layer.", number);
  const std::string self = block + ".attention.attention";
  const at::Tensor in = layer_normed(pass, block + ".layernorm_before", x);
  const at::Tensor attended = attention(
      affine(pass, self + ".query", in), affine(pass, self + ".key", in), affine(pass, self + ".value", in),
      {.heads = model.heads, .scale = 1 / std::sqrt(static_cast<double>(model.hidden_size / model.heads))});
  const at::Tensor middle = x + dropped(pass, block + ".attention", model.dropout,
                                        affine(pass, block + ".attention.output.dense", attended));
  const at::Tensor inner =
      affine(pass, block + ".intermediate.dense", layer_normed(pass, block + ".layernorm_after", middle));
  return middle + dropped(pass, block + ".output", model.dropout,
                          affine(pass, block + ".output.dense", exact_gelu(inner)));
}

/// Attention whose maps are mixed across heads and normalized over them before they weigh the values.
/// `block`: the site of the maps' dropout.
at::Tensor reattention(const std::string& block, const at::Tensor& in, const Pass& pass) {
  const ModelOptions& model = pass.model;
  const std::string name = block + ".0.fn.fn";
  const std::int64_t size = model.hidden_size / model.heads;
  const at::Tensor qkv =
      affine(pass, name + ".to_qkv", in).view({-1, 3, model.heads, size}).permute({1, 2, 0, 3});
  const at::Tensor scores =
      widened(at::matmul(qkv[0], qkv[1].transpose(1, 2))) / std::sqrt(static_cast<double>(size));
  const at::Tensor whole = at::softmax(scores, 2).to(in.scalar_type());  // [heads, queries, keys]
  const at::Tensor maps = dropped(pass, block + ".maps", model.dropout, whole.unsqueeze(0)).squeeze(0);
  const at::Tensor mixed = at::matmul(maps.permute({1, 2, 0}), weight_of(pass, name + ".reattn_weights"));
  const at::Tensor normalized = layer_normed(pass, name + ".reattn_norm.1", mixed);
  const at::Tensor out = at::matmul(normalized.permute({2, 0, 1}), qkv[2]);
  return affine(pass, name + ".to_out.0", out.transpose(0, 1).reshape_as(in));
}

at::Tensor deepvit_block(std::int64_t number, const at::Tensor& x, const Pass& pass) {
  const double p = pass.model.dropout;
  const std::string block = str("transformer.layers.", number);
  const at::Tensor in = layer_normed(pass, block + ".0.fn.norm", x);
  const at::Tensor middle = x + dropped(pass, block + ".attention", p, reattention(block, in, pass));
  const at::Tensor inner =
      affine(pass, block + ".1.fn.fn.net.0", layer_normed(pass, block + ".1.fn.norm", middle));
  return middle + dropped(pass, block + ".outer", p,
                          affine(pass, block + ".1.fn.fn.net.3",
                                 dropped(pass, block + ".inner", p, exact_gelu(inner))));
}

}  // namespace

at::Tensor vit_loss(const Pass& pass, const SampleBatch& sample) {
  const std::string start = "vit.embeddings";
  const std::string projection = start + ".patch_embeddings.projection";
  const at::Tensor kernel = weight_of(pass, projection + ".weight").flatten(1);
  const at::Tensor patches = at::matmul(patches_of(image_of(sample, pass), pass.model, false), kernel.t()) +
                             weight_of(pass, projection + ".bias");
  at::Tensor x = dropped(pass, start, pass.model.dropout,
                         embedded_image(patches, weight_of(pass, start + ".cls_token"),
                                        weight_of(pass, start + ".position_embeddings")));
  for (std::int64_t block = 0; block < pass.model.layers; ++block) x = vit_block(block, x, pass);
  return cross_entropy(affine(pass, "classifier", layer_normed(pass, "vit.layernorm", x).narrow(0, 0, 1)),
                       at::tensor(sample.targets, at::kLong));
}

at::Tensor deepvit_loss(const Pass& pass, const SampleBatch& sample) {
  const std::string start = "to_patch_embedding";
  const at::Tensor patches = affine(pass, start + ".1", patches_of(image_of(sample, pass), pass.model, true));
  at::Tensor x =
      dropped(pass, start, pass.model.dropout,
              embedded_image(patches, weight_of(pass, "cls_token"), weight_of(pass, "pos_embedding")));
  for (std::int64_t block = 0; block < pass.model.layers; ++block) x = deepvit_block(block, x, pass);
  return cross_entropy(affine(pass, "mlp_head.1", layer_normed(pass, "mlp_head.0", x).narrow(0, 0, 1)),
                       at::tensor(sample.targets, at::kLong));
}

at::Tensor cnn_loss(const Pass& pass, const SampleBatch& sample) {
  const double p = pass.model.dropout;
  const auto convolved = [&](const std::string& name, const at::Tensor& x) {
    return at::relu(at::conv2d(x, weight_of(pass, name + ".weight"), weight_of(pass, name + ".bias")));
  };
  const at::Tensor x = convolved("conv2", convolved("conv1", image_of(sample, pass).unsqueeze(0)));
  const at::Tensor pooled = dropped(pass, "dropout1", p / 2, at::max_pool2d(x, {2, 2}).flatten(1));
  const at::Tensor inner = dropped(pass, "dropout2", p, at::relu(affine(pass, "fc1", pooled)));
  return cross_entropy(affine(pass, "fc2", inner), at::tensor(sample.targets, at::kLong));
}

}  // namespace echelon::reference
