#pragma once
#include "model/image_classifier.h"
#include "model/parts/linear.h"

namespace echelon {

/// The network of the MNIST tutorials: two 3 x 3 convolutions (32 and 64 channels) with ReLU, a 2 x 2 pool, a
/// linear layer of 128 with ReLU, a linear layer of one output per class, log-softmax. Dropout of single
/// elements before both linear layers: probability `dropout` before the second, half of it before the first.
/// Parameter names and initial values are those of the tutorial's nn.Module: uniform within 1 / sqrt(fan-in).
class Cnn : public ImageClassifier {
 public:
  Cnn(const ModelOptions& options, const ModelTypes& types);

  SampleFlops flops_per_sample(const SampleShape& shape) const override;

 private:
  struct Part {
    const Layer* layer;
    Linear product;  ///< a convolution or a linear layer
  };
  Part add(const std::string& name, Layer::Role role, const ShapeTable& shapes);
  at::Tensor logits(const Batch& batch) override;

  Part conv1_;
  Part conv2_;
  Part fc1_;
  Part fc2_;
};

}  // namespace echelon
