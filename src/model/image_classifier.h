#pragma once
#include "model/model.h"

namespace echelon {

/// Base of models that predict the class of an image. One prediction per sample.
class ImageClassifier : public Model {
 public:
  at::Tensor loss(const Batch& batch, double gradient_scale) override;
  Score evaluate(const Batch& batch) override;

 protected:
  /// `output`: the type to which logits are rounded.
  explicit ImageClassifier(at::ScalarType output) : output_(output) {}

  /// Logits [samples, classes] of batch.images.
  [[nodiscard]] virtual at::Tensor logits(const Batch& batch) = 0;

 private:
  at::ScalarType output_;
};

}  // namespace echelon
