#pragma once
#include "model/affine.h"
#include "model/image_classifier.h"

namespace echelon {

/// The network of the MNIST tutorials: two convolutions of 3 x 3 (32 and 64 channels) with ReLU, a pool of
/// 2 x 2, a linear layer of 128 with ReLU, one of as many as there are classes, log-softmax. Dropout before
/// both linear layers: `dropout` before the last, half of it (of single elements, too) before the first.
/// Parameter names and initial values are those of the tutorial's nn.Module: uniform within 1 / sqrt(inputs
/// of an output).
class Cnn : public ImageClassifier {
 public:
  Cnn(const ModelOptions& options, const ModelTypes& types);

  std::string hugging_face_config() const override;
  double flops_per_sample(const SampleShape& shape) const override;

 private:
  Affine add(const std::string& name, Layer::Role role, const std::vector<std::int64_t>& weight);
  at::Tensor logits(const Batch& batch) override;

  ModelOptions options_;
  Affine conv1_;
  Affine conv2_;
  Affine fc1_;
  Affine fc2_;
};

}  // namespace echelon
