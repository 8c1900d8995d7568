#include "model/model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "support/small_models.h"
#include "support/unsharded.h"
#include "unit/model/tensors.h"

namespace echelon {
namespace {

using test::built;
using test::language_batch;

ModelOptions small(bool tied) {
  return test::lively_options(3, tied);
}

/// Rows of equal length.
Batch prompts_of(const at::Tensor& ids) {
  Batch batch;
  batch.ids = ids.flatten();
  batch.sequences = make_sequences(ids.size(0), ids.size(1));
  return batch;
}

TEST(Model, MaterializedWeightsAreTheInitialValuesOfTheirParts) {
  const auto model = built(small(false));
  for (const Parameter* parameter : model->parameters()) {
    if (parameter->parts().size() != 1) continue;
    const Parameter::Part& part = parameter->parts().front();
    std::vector<float> expected(static_cast<std::size_t>(part.numel()));
    fill_initial(part, parameter->init(), 3, 0, part.numel(), expected.data());
    const at::Tensor values = parameter->value.detach().flatten();
    EXPECT_TRUE(at::equal(values, at::from_blob(expected.data(), values.sizes(), at::kFloat))) << part.name;
  }
}

TEST(Model, LossOfOneMoreTokenIsTheCrossEntropyOfTheNextTokensLogits) {
  const at::NoGradGuard no_grad;
  for (const bool tied : {false, true}) {
    const auto model = built(small(tied));
    at::manual_seed(2);
    const at::Tensor ids = at::randint(0, 61, {2, 20}, at::kLong);
    const at::Tensor shorter = ids.narrow(1, 0, 19).contiguous();
    const at::Tensor difference =
        model->loss(language_batch(ids), 0) - model->loss(language_batch(shorter), 0);
    const at::Tensor logits = model->decoder(prompts_of(shorter))->start();
    EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{2, 61}));
    const at::Tensor expected = at::cross_entropy_loss(logits, ids.select(1, 19), {}, at::Reduction::Sum);
    EXPECT_NEAR(difference.item<double>(), expected.item<double>(), 1e-3);
  }
}

TEST(Model, UntrainedModelIsAsGoodAsGuessing) {
  const at::NoGradGuard no_grad;
  ModelOptions options = small(false);
  options.init_std = 0.001;
  const auto model = built(options);
  const at::Tensor ids = at::randint(0, 61, {4, 33}, at::kLong);
  EXPECT_NEAR(model->loss(language_batch(ids), 0).item<double>() / (4 * 32), std::log(61.0), 0.01);
}

TEST(Model, LossIsTheSameWithAndWithoutGradients) {
  const auto model = built(small(true));
  const at::Tensor ids = at::randint(0, 61, {2, 20}, at::kLong);
  const double training = model->loss(language_batch(ids), 1.0).item<double>();
  const at::NoGradGuard no_grad;
  EXPECT_EQ(model->loss(language_batch(ids), 0).item<double>(), training);
}

TEST(Model, GradientScaleMultipliesEveryGradient) {
  test::expect_scaled_gradients(*built(small(true)), language_batch(at::randint(0, 61, {2, 20}, at::kLong)),
                                1e-6);
}

TEST(Model, FlopsCountMatricesSixTimesAndAttention) {
  // 2 * 3 (forward, and two products backward) per weight of a matrix, the head's also when tied; norms are
  // noise.
  const double block = 24 * 24 * 2 + 2 * 12 * 24 + 3 * 24 * 40;
  const double expected = 6 * (3 * block + 61 * 24) + 12.0 * 3 * 24 * 16;
  for (const bool tied : {false, true}) {
    EXPECT_NEAR(build_model(small(tied), at::kFloat, at::kCPU)->flops_per_sample({16, 0}).all(),
                16 * expected, 0.02 * 16 * expected);
  }
}

}  // namespace
}  // namespace echelon
