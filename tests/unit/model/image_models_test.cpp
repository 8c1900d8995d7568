#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "model/model.h"
#include "unit/model/tensors.h"

namespace echelon {
namespace {

using test::built;

ModelOptions mnist() {
  return {.kind = ModelKind::kCnn, .image_size = 28, .channels = 1, .classes = 10};
}

ModelOptions small(const std::string& kind) {
  return {.kind = choice_of<ModelKind>(kind).value(),
          .hidden_size = 24,
          .intermediate_size = 40,
          .layers = 2,
          .heads = 4,
          .init_std = 0.2,
          .image_size = 12,
          .patch_size = 4,
          .channels = 3,
          .classes = 5};
}

Batch random_batch(const ModelOptions& options, std::int64_t samples) {
  at::manual_seed(4);
  Batch batch;
  batch.samples = samples;
  batch.images = at::randn({samples, options.channels, options.image_size, options.image_size});
  batch.targets = at::randint(0, options.classes, {samples}, at::kLong);
  return batch;
}

/// Samples [first, first + count) of `batch`.
Batch part_of(const Batch& batch, std::int64_t first, std::int64_t count) {
  Batch part = batch;
  part.samples = count;
  part.first_sample = batch.first_sample + first;
  part.images = batch.images.narrow(0, first, count);
  part.targets = batch.targets.narrow(0, first, count);
  return part;
}

double loss_of(Model& model, const Batch& batch) {
  const at::NoGradGuard no_grad;
  return model.loss(batch, 0).item<double>();
}

class ImageModel : public ::testing::TestWithParam<const char*> {
 protected:
  const ModelOptions options_ = small(GetParam());
  const std::unique_ptr<Model> model_ = built(options_);
};
INSTANTIATE_TEST_SUITE_P(Kinds, ImageModel, ::testing::Values("cnn", "vit", "deepvit"));

TEST_P(ImageModel, LossIsThatOfEachSampleAlone) {
  const Batch batch = random_batch(options_, 6);
  double sum = 0;
  for (std::int64_t i = 0; i < 6; ++i) sum += loss_of(*model_, part_of(batch, i, 1));
  EXPECT_NEAR(loss_of(*model_, batch), sum, 1e-4 * sum);
}

TEST_P(ImageModel, NegativeTargetsDoNotCount) {
  Batch batch = random_batch(options_, 6);
  const double counted = loss_of(*model_, part_of(batch, 0, 4));
  batch.targets.narrow(0, 4, 1).fill_(-1);
  batch.targets.narrow(0, 5, 1).fill_(-100);
  EXPECT_NEAR(loss_of(*model_, batch), counted, 1e-4 * counted);
  const at::NoGradGuard no_grad;
  EXPECT_LE(model_->evaluate(batch).correct.item<double>(), 4);
  batch.targets.fill_(-1);
  EXPECT_EQ(loss_of(*model_, batch), 0);
  EXPECT_EQ(model_->evaluate(batch).correct.item<double>(), 0);
}

TEST_P(ImageModel, EvaluationCountsTheMostLikelyClasses) {
  Batch batch = random_batch(options_, 40);
  const at::NoGradGuard no_grad;
  // The class of least loss is the most likely one.
  std::vector<at::Tensor> losses;
  for (std::int64_t c = 0; c < options_.classes; ++c) {
    batch.targets.fill_(c);
    std::vector<float> of_class;
    for (std::int64_t i = 0; i < 40; ++i)
      of_class.push_back(static_cast<float>(loss_of(*model_, part_of(batch, i, 1))));
    losses.push_back(at::tensor(of_class));
  }
  batch.targets = at::stack(losses).argmin(0);
  EXPECT_EQ(model_->evaluate(batch).correct.item<double>(), 40);
  batch.targets = (batch.targets + 1) % options_.classes;
  EXPECT_EQ(model_->evaluate(batch).correct.item<double>(), 0);
  EXPECT_NEAR(model_->evaluate(batch).loss.item<double>(), loss_of(*model_, batch), 1e-3);
}

TEST_P(ImageModel, GradientScaleMultipliesEveryGradient) {
  test::expect_scaled_gradients(*model_, random_batch(options_, 3), 1e-5);
}

TEST_P(ImageModel, DropoutDependsOnTheSampleAndTheSeedOnly) {
  ModelOptions options = options_;
  options.dropout = 0.4;
  const auto model = built(options);
  Batch batch = random_batch(options, 6);
  batch.training = true;
  batch.dropout_key = 9;
  batch.first_sample = 100;
  const double whole = loss_of(*model, batch);
  EXPECT_EQ(loss_of(*model, batch), whole);
  double sum = 0;
  for (std::int64_t i = 0; i < 6; ++i) sum += loss_of(*model, part_of(batch, i, 1));
  EXPECT_NEAR(sum, whole, 1e-4 * whole);
  Batch other = batch;
  other.dropout_key = 10;
  EXPECT_GT(std::abs(loss_of(*model, other) - whole), 1e-3);
  other = batch;
  other.first_sample = 101;
  EXPECT_GT(std::abs(loss_of(*model, other) - whole), 1e-3);
  other = batch;
  other.training = false;
  const double plain = loss_of(*model, other);
  EXPECT_GT(std::abs(plain - whole), 1e-3);
  EXPECT_EQ(loss_of(*model_, other), plain);
}

TEST_P(ImageModel, HasNoNextToken) {
  EXPECT_THROW((void)model_->decoder(Batch{}), Error);
}

TEST(Cnn, HasTheTutorialsParameters) {
  const auto model = build_model(mnist(), at::kFloat, at::kCPU);
  EXPECT_EQ(model->numel(), 1'199'882);
  std::vector<std::string> shapes;
  for (const Parameter* parameter : model->parameters()) {
    std::string shape = parameter->parts().front().name;
    for (const std::int64_t size : parameter->shape()) shape += " " + std::to_string(size);
    shapes.push_back(shape);
  }
  EXPECT_EQ(shapes, (std::vector<std::string>{
                        "conv1.weight 32 1 3 3", "conv1.bias 32", "conv2.weight 64 32 3 3", "conv2.bias 64",
                        "fc1.weight 128 9216", "fc1.bias 128", "fc2.weight 10 128", "fc2.bias 10"}));
}

TEST(Cnn, StartsFromUniformValuesWithinTheRootOfItsInputs) {
  const auto model = built(mnist());
  for (const Parameter* parameter : model->parameters()) {
    const std::string name = parameter->parts().front().name;
    const double inputs = name.starts_with("conv1")   ? 9
                          : name.starts_with("conv2") ? 288
                          : name.starts_with("fc1")   ? 9216
                                                      : 128;
    const double bound = 1 / std::sqrt(inputs);
    const at::Tensor values = parameter->value.detach();
    EXPECT_LE(values.abs().max().item<double>(), bound) << name;
    if (values.numel() < 200) continue;
    EXPECT_GT(values.max().item<double>(), 0.95 * bound) << name;
    EXPECT_NEAR(values.mean().item<double>(), 0, 0.1 * bound) << name;
    EXPECT_NEAR(values.std().item<double>(), bound / std::sqrt(3.0), 0.05 * bound) << name;
  }
}

TEST(Vit, CountsItsFlops) {
  ModelOptions options;
  options.kind = ModelKind::kVit;
  // 17.58 G multiply-adds forward is the published figure of ViT-B/16 at 224 pixels; 6 a weight and token.
  EXPECT_NEAR(build_model(options, at::kFloat, at::kCPU)->flops_per_sample({}).all() / 6, 17.58e9, 0.02e9);
}

}  // namespace
}  // namespace echelon
