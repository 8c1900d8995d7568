#include "model/cnn/cnn.h"

#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/ops/ops.h"

namespace echelon {
namespace {

constexpr std::int64_t kChannels1 = 32;
constexpr std::int64_t kChannels2 = 64;
constexpr std::int64_t kKernel = 3;
constexpr std::int64_t kHidden = 128;

/// Side of the images behind convolution `number`, which has no padding.
std::int64_t side_after(const ModelOptions& options, std::int64_t number) {
  return options.image_size - number * (kKernel - 1);
}

std::int64_t pooled_side(const ModelOptions& options) {
  return side_after(options, 2) / 2;
}

at::Tensor convolved(const Affine& kernel, const at::Tensor& images) {
  return at::relu(at::conv2d(images.to(kernel.weight->value.scalar_type()), ops::use(*kernel.weight),
                             ops::use(*kernel.bias)));
}

}  // namespace

Cnn::Cnn(const ModelOptions& options, const ModelTypes& types)
    : ImageClassifier(types.output), options_(options) {
  const std::int64_t side = pooled_side(options);
  conv1_ = add("conv1", Layer::Role::kBlock, {kChannels1, options.channels, kKernel, kKernel});
  conv2_ = add("conv2", Layer::Role::kBlock, {kChannels2, kChannels1, kKernel, kKernel});
  fc1_ = add("fc1", Layer::Role::kBlock, {kHidden, kChannels2 * side * side});
  fc2_ = add("fc2", Layer::Role::kHead, {options.classes, kHidden});
}

Affine Cnn::add(const std::string& name, Layer::Role role, const std::vector<std::int64_t>& weight) {
  Layer& layer = *layers_.emplace_back(std::make_unique<Layer>(name, role));
  double inputs = 1;
  for (std::size_t i = 1; i < weight.size(); ++i) inputs *= static_cast<double>(weight[i]);
  const InitSpec uniform{InitSpec::Kind::kUniform, static_cast<float>(1.0 / std::sqrt(inputs))};
  return add_affine(layer, name, weight, uniform, uniform);
}

at::Tensor Cnn::logits(const Batch& batch) {
  const Batch draws = draws_of(batch, 0);
  at::Tensor x =
      conv1_.layer->run(batch.images, [this](const at::Tensor& in) { return convolved(conv1_, in); });
  x = conv2_.layer->run(x, [this, draws](const at::Tensor& in) {
    const at::Tensor pooled = ops::max_pool_2x2(convolved(conv2_, in));
    return ops::dropout(pooled.flatten(1), options_.dropout / 2, draws, "dropout1");
  });
  x = fc1_.layer->run(x, [this, draws](const at::Tensor& in) {
    return ops::dropout(at::relu(linear(fc1_, in)), options_.dropout, draws, "dropout2");
  });
  return fc2_.layer->run(x, [this](const at::Tensor& in) { return linear(fc2_, in); });
}

std::string Cnn::hugging_face_config() const {
  // transformers has no such model: what this one was built from.
  const nlohmann::json config{{"model_type", "cnn"},
                              {"image_size", options_.image_size},
                              {"num_channels", options_.channels},
                              {"num_labels", options_.classes},
                              {"dropout", options_.dropout}};
  return config.dump(2) + "\n";
}

double Cnn::flops_per_sample(const SampleShape& /*shape*/) const {
  const auto squared = [](std::int64_t side) { return static_cast<double>(side * side); };
  const double convolutions = squared(side_after(options_, 1)) * static_cast<double>(conv1_.weight->numel()) +
                              squared(side_after(options_, 2)) * static_cast<double>(conv2_.weight->numel());
  return 6.0 * (convolutions + static_cast<double>(fc1_.weight->numel() + fc2_.weight->numel()));
}

}  // namespace echelon
