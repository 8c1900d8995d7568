#include "model/patch_classifier.h"

#include <ATen/ATen.h>

#include <memory>

#include "model/ops/products/product.h"
#include "model/ops/products/widened_product.h"

namespace echelon {

PatchClassifier::PatchClassifier(const ModelOptions& options, const ModelTypes& types, PatchLayout layout)
    : ImageClassifier(types.output), options_(options), shapes_(options), layout_(layout) {}

std::int64_t PatchClassifier::tokens() const {
  return positions_->shape().at(1);
}

Layer& PatchClassifier::add_layer(const std::string& name, Layer::Role role) {
  return *layers_.emplace_back(std::make_unique<Layer>(name, role));
}

Layer& PatchClassifier::add_block_layer(const std::string& name) {
  Layer& layer = add_layer(name, Layer::Role::kBlock);
  block_layers_.push_back(&layer);
  return layer;
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

at::Tensor PatchClassifier::logits(const Batch& batch) {
  const Batch draws = draws_of(batch, tokens());
  at::Tensor x = embedding_layer_->run(
      batch.images, [this, draws](const at::Tensor& images) { return embedded(images, draws); });
  for (std::size_t i = 0; i < block_layers_.size(); ++i) {
    x = block_layers_[i]->run(x,
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
