#include "model/cnn/cnn.h"

#include <ATen/ATen.h>

#include <cmath>

#include "model/ops/ops.h"

namespace echelon {
namespace {

at::Tensor convolved(const Linear& kernel, const at::Tensor& images) {
  return at::relu(ops::convolution(images.to(kernel.weight->value.scalar_type()), ops::use(*kernel.weight),
                                   ops::use(*kernel.bias)));
}

}  // namespace

Cnn::Cnn(const ModelOptions& options, const ModelTypes& types) : ImageClassifier(options, types) {
  const ShapeTable shapes(options);
  conv1_ = add("conv1", Layer::Role::kBlock, shapes);
  conv2_ = add("conv2", Layer::Role::kBlock, shapes);
  fc1_ = add("fc1", Layer::Role::kBlock, shapes);
  fc2_ = add("fc2", Layer::Role::kHead, shapes);
}

Cnn::Part Cnn::add(const std::string& name, Layer::Role role, const ShapeTable& shapes) {
  Layer& layer = add_layer(name, role);
  const Dimensions& weight = shapes.at(name + ".weight");
  double inputs = 1;
  for (std::size_t i = 1; i < weight.size(); ++i) inputs *= static_cast<double>(weight[i]);
  const InitSpec uniform{InitSpec::Kind::kUniform, static_cast<float>(1.0 / std::sqrt(inputs))};
  return {&layer, add_linear(layer, name, shapes, uniform, uniform)};
}

at::Tensor Cnn::logits(const Batch& batch) {
  const Batch draws = draws_of(batch, nullptr);
  at::Tensor x =
      conv1_.layer->run(batch.images, [this](const at::Tensor& in) { return convolved(conv1_.product, in); });
  x = conv2_.layer->run(x, [this, draws](const at::Tensor& in) {
    const at::Tensor pooled = ops::max_pool_2x2(convolved(conv2_.product, in));
    return ops::dropout(pooled.flatten(1), options_.dropout / 2, draws, "dropout1");
  });
  x = fc1_.layer->run(x, [this, draws](const at::Tensor& in) {
    return ops::dropout(at::relu(fc1_.product.forward(in)), options_.dropout, draws, "dropout2");
  });
  return fc2_.layer->run(x, [this](const at::Tensor& in) { return fc2_.product.forward(in); });
}

SampleFlops Cnn::flops_per_sample(const SampleShape& /*shape*/) const {
  const auto elements = [](const Part& part) { return static_cast<double>(part.product.weight->numel()); };
  double products = elements(fc1_) + elements(fc2_);
  // A weight of a convolution is multiplied at each output position; there is no padding.
  std::int64_t side = options_.image_size;
  for (const Part* convolution : {&conv1_, &conv2_}) {
    side -= convolution->product.weight->shape().back() - 1;
    products += static_cast<double>(side * side) * elements(*convolution);
  }
  return {.matrices = 6.0 * products};
}

}  // namespace echelon
