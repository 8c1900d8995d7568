#pragma once
#include "model/model.h"

namespace echelon {

/// A model that predicts the class of an image. One sample is one prediction.
class ImageClassifier : public Model {
 public:
  at::Tensor loss(const Batch& batch, double gradient_scale) override;
  Score evaluate(const Batch& batch) override;

 protected:
  /// `output`: what logits are rounded to.
  explicit ImageClassifier(at::ScalarType output) : output_(output) {}

  /// [samples, classes] of batch.images.
  [[nodiscard]] virtual at::Tensor logits(const Batch& batch) = 0;

  /// What dropout needs to know of a batch of `tokens` tokens a sample (0: samples have none), without the
  /// batch's tensors: layer bodies that are kept for backward would keep those as well.
  [[nodiscard]] static Batch draws_of(const Batch& batch, std::int64_t tokens);

 private:
  at::ScalarType output_;
};

}  // namespace echelon
