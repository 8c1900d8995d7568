#include "model/patch_classifier.h"

#include <ATen/ATen.h>

#include "model/ops/products/product.h"
#include "model/ops/products/widened_product.h"

namespace echelon {
namespace {

/// images [samples, channels, size, size] -> [samples, patches, channels * side * side], patches row by row.
at::Tensor cut_patches(const at::Tensor& images, std::int64_t side, PatchLayout layout) {
  // [samples, channels, patch row, patch column, row, column]
  const at::Tensor cut = images.unfold(2, side, side).unfold(3, side, side);
  const bool channels_first = layout == PatchLayout::kChannelsFirst;
  const at::Tensor ordered =
      channels_first ? cut.permute({0, 2, 3, 1, 4, 5}) : cut.permute({0, 2, 3, 4, 5, 1});
  return ordered.reshape({images.size(0), cut.size(2) * cut.size(3), images.size(1) * side * side});
}

/// patches [samples, n, hidden] -> [samples * (n + 1), hidden]. Puts the class token [1, 1, hidden] before
/// the patches of each sample, and adds positions [1, n + 1, hidden].
at::Tensor with_class_token(const at::Tensor& patches, const at::Tensor& class_token,
                            const at::Tensor& positions) {
  const at::Tensor first = class_token.expand({patches.size(0), 1, patches.size(2)});
  return (at::cat({first, patches}, 1) + positions).flatten(0, 1);
}

}  // namespace

PatchClassifier::PatchClassifier(const ModelOptions& options, const ModelTypes& types, PatchLayout layout,
                                 Drops drops)
    : ImageClassifier(options, types), shapes_(options), layout_(layout), drops_(std::move(drops)) {}

std::int64_t PatchClassifier::tokens() const {
  return positions_->shape().at(1);
}

void PatchClassifier::add_class_token(Layer& layer, const std::string& name) {
  class_token_ = &layer.add(name, shapes_.at(name), init());
}

void PatchClassifier::add_positions(Layer& layer, const std::string& name) {
  positions_ = &layer.add(name, shapes_.at(name), init());
}

void PatchClassifier::add_projection(Layer& layer, const std::string& name) {
  embedding_layer_ = &layer;
  patch_ = add_linear(layer, name, shapes_, init());
}

void PatchClassifier::add_head(const std::string& layer, const std::string& norm,
                               const std::string& classifier) {
  Layer& head = add_layer(layer, Layer::Role::kHead);
  head_layer_ = &head;
  final_norm_.emplace(head.add_layer(norm), shapes_, options_);
  classifier_ = add_linear(head, classifier, shapes_, init());
}

at::Tensor PatchClassifier::embedded(const at::Tensor& images, const Batch& draws) const {
  const at::Tensor patches =
      cut_patches(images.to(patch_.weight->value.scalar_type()), options_.patch_size, layout_);
  const at::Tensor projected =
      ops::goes_by_fp32(patches)
          ? ops::matmul(patches, ops::use(*patch_.weight).flatten(1).t()) + ops::use(*patch_.bias)
          : at::linear(patches, ops::use(*patch_.weight).flatten(1), ops::use(*patch_.bias));
  const at::Tensor x = with_class_token(projected, ops::use(*class_token_), ops::use(*positions_));
  return ops::dropout(x, options_.dropout, draws, embedding_layer_->name());
}

at::Tensor PatchClassifier::block_forward(std::size_t number, const at::Tensor& x, const Batch& draws) const {
  const Block& block = blocks_[number];
  const std::string& name = block.layer->name();
  Residual stream(x);
  const at::Tensor middle =
      x + ops::dropout(block.attention.forward(*block.layer, stream, attend(number, draws)), options_.dropout,
                       draws, name + ".attention");
  const at::Tensor inner = block.up_layer->run(
      block.norm.forward(middle), [&block, again = block.norm.again(*block.layer, middle)](
                                      const at::Tensor& in) { return block.up.forward(in, again); });
  const at::Tensor out = block.down_layer->run(inner, [this, &block, draws](const at::Tensor& in) {
    const auto activated = [this, &block, draws](const at::Tensor& from) {
      at::Tensor result = at::gelu(from);
      if (drops_.inner.empty()) return result;
      return ops::dropout(result, options_.dropout, draws, block.layer->name() + drops_.inner);
    };
    ops::Recompute again;
    if (block.layer->recomputes_cheap()) again = [activated, kept = in.detach()] { return activated(kept); };
    return block.down.forward(activated(in), again);
  });
  return middle + ops::dropout(out, options_.dropout, draws, name + drops_.outer);
}

at::Tensor PatchClassifier::logits(const Batch& batch) {
  const Batch draws = draws_of(batch, make_sequences(batch.samples, tokens()));
  at::Tensor x = embedding_layer_->run(
      batch.images, [this, draws](const at::Tensor& images) { return embedded(images, draws); });
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    x = blocks_[i].layer->run(x,
                              [this, i, draws](const at::Tensor& in) { return block_forward(i, in, draws); });
  }
  return head_layer_->run(x, [this](const at::Tensor& in) {
    const at::Tensor first = in.view({-1, tokens(), options_.hidden_size}).select(1, 0).contiguous();
    return classifier_.forward(final_norm_->forward(first));
  });
}

SampleFlops PatchClassifier::flops_with(double attention) const {
  const auto count = static_cast<double>(tokens());
  const double h = static_cast<double>(options_.hidden_size);
  const double block = 4 * h * h + 2 * h * static_cast<double>(options_.intermediate_size);
  const double blocks = static_cast<double>(options_.layers) * count;
  const double ends = (count - 1) * static_cast<double>(patch_.weight->numel()) +
                      static_cast<double>(classifier_.weight->numel());
  return {6 * (blocks * block + ends), blocks * attention};
}

}  // namespace echelon
