#include "optim/loss_scale.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "comm/local_communicator.h"
#include "shard/sharded_model.h"
#include "support/unsharded.h"
#include "unit/model/tensors.h"
#include "unit/train/small_model.h"

namespace echelon {
namespace {

using test::language_batch;

const PrecisionOptions kOptions{.loss_scale = 1024, .loss_scale_growth_steps = 3};

TEST(LossScale, IsOneWhereNothingNeedsIt) {
  LossScale scale(kOptions, false);
  scale.update(false);
  EXPECT_EQ(scale.factor(), 1.0);
  EXPECT_FALSE(scale.can_shrink());
}

TEST(LossScale, HalvesAtAnOverflowAndDoublesAfterARunOfFiniteSteps) {
  LossScale scale(kOptions, true);
  scale.update(false);
  EXPECT_EQ(scale.factor(), 512.0);
  for (const double expected : {512.0, 512.0, 1024.0, 1024.0, 1024.0, 2048.0}) {
    scale.update(true);
    EXPECT_EQ(scale.factor(), expected);
  }
}

TEST(LossScale, AnOverflowStartsTheRunAnew) {
  LossScale scale(kOptions, true);
  scale.update(true);
  scale.update(true);
  scale.update(false);
  scale.update(true);
  EXPECT_EQ(scale.factor(), 512.0);
  EXPECT_EQ(scale.finite_in_a_row(), 1);
}

TEST(LossScale, StopsShrinkingWhereScalingIsNotTheCause) {
  LossScale scale(kOptions, true);
  for (int i = 0; i < 100; ++i) scale.update(false);
  EXPECT_FALSE(scale.can_shrink());
  EXPECT_GT(scale.factor(), 0.0);
}

TEST(LossScale, GoesOnWhereItWasSaved) {
  LossScale scale(kOptions, true);
  scale.restore(4096, 2);
  scale.update(true);
  EXPECT_EQ(scale.factor(), 8192.0);
}

/// Each tensor's gradient as the optimizer gets it, in a step of so many tokens that gradients are small.
/// `scaled`: as the trainer scales them.
std::map<std::string, at::Tensor> small_gradients(const PrecisionOptions& precision, bool scaled = true) {
  LocalCommunicator comm;
  ShardedModel model(build_model(test::small_options(), resolve(precision).types(), at::kCPU), comm,
                     {.precision = precision}, 3, at::kCPU);
  const LossScale scale(precision, scaled && model.needs_loss_scale());
  at::manual_seed(1);
  const Batch batch = language_batch(at::randint(0, 13, {4, 9}, at::kLong));
  (void)model.accumulate(batch, scale.factor() / (1 << 20), {});
  model.finish_gradients();
  std::map<std::string, at::Tensor> gradients;
  for (const auto& unit : model.units()) {
    for (const SlicePiece& piece : unit->pieces()) {
      gradients[piece.part->name] = unit->gradient().narrow(0, piece.at, piece.numel()) / scale.factor();
    }
  }
  return gradients;
}

TEST(LossScale, IsThereWhereverGradientsPassThroughFp16) {
  const std::map<std::string, at::Tensor> exact = small_gradients({});
  const std::vector<std::pair<const char*, PrecisionOptions>> some_fp16{
      {"everything", {.preset = PrecisionPreset::kFp16}},
      {"the block's", {.overrides = {{"model.layers.1", FloatType::kFp16}}}},
      {"attention's", {.overrides = {{"*self_attn", FloatType::kFp16}}}},
      {"the norms'", {.overrides = {{"*norm", FloatType::kFp16}}}},
      {"all but the products'", {.overrides = {{"*", FloatType::kFp16}, {"*mlp", FloatType::kFp32}}}}};
  for (const auto& [whose, precision] : some_fp16) {
    for (const auto& [name, gradient] : small_gradients(precision))
      EXPECT_LT(test::relative_error(gradient, exact.at(name)), 0.02) << whose << ": " << name;
  }
  const std::string query = "model.layers.1.self_attn.q_proj.weight";
  const auto unscaled = small_gradients({.overrides = {{"*self_attn", FloatType::kFp16}}}, false);
  EXPECT_GT(test::relative_error(unscaled.at(query), exact.at(query)), 0.2) << "gradients are not small";
}

TEST(LossScale, IsNotThereWithoutFp16) {
  const auto needed = [](const PrecisionOptions& precision) {
    LocalCommunicator comm;
    return ShardedModel(build_model(test::small_options(), at::kFloat, at::kCPU), comm,
                        {.precision = precision}, 3, at::kCPU)
        .needs_loss_scale();
  };
  EXPECT_FALSE(needed({}));
  EXPECT_FALSE(needed({.preset = PrecisionPreset::kBf16}));
  EXPECT_FALSE(needed({.buffer = FloatType::kFp16})) << "tables are constant";
  EXPECT_TRUE(needed({.preset = PrecisionPreset::kFp16, .param = FloatType::kFp32}))
      << "gradients travel as fp16";
  EXPECT_TRUE(needed({.output = FloatType::kFp16}));
}

}  // namespace
}  // namespace echelon
