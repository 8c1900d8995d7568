#pragma once
#include "model/model.h"

namespace echelon {

/// Base of models that predict the class of an image. One prediction per sample.
class ImageClassifier : public Model {
 public:
  at::Tensor loss(const Batch& batch, double gradient_scale) override;
  Score evaluate(const Batch& batch) override;

 protected:
  using Model::Model;

  /// Logits [samples, classes] of batch.images.
  [[nodiscard]] virtual at::Tensor logits(const Batch& batch) = 0;
};

}  // namespace echelon
