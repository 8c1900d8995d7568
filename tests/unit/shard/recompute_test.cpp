
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "base/str.h"
#include "comm/local_communicator.h"
#include "shard/sharded_model.h"
#include "support/small_models.h"
#include "support/unsharded.h"

namespace echelon {
namespace {

using test::language_batch;

ModelOptions small(ModelKind kind, bool tied = false) {
  ModelOptions options = test::lively_options(1, tied);
  options.kind = kind;
  options.dropout = kind == ModelKind::kLlama ? 0.0 : 0.1;
  options.image_size = 12;
  options.patch_size = 4;
  options.classes = 5;
  return options;
}

Batch batch_for(ModelKind kind) {
  at::manual_seed(4);
  if (!takes_images(kind)) {
    Batch batch = language_batch(at::randint(2, 61, {2, 10}, at::kLong));
    batch.training = true;
    if (takes_pairs(kind)) batch.target_sequences = batch.sequences;
    return batch;
  }
  Batch batch{.samples = 2, .training = true};
  batch.images = at::randn({2, 3, 12, 12});
  batch.targets = at::randint(0, 5, {2}, at::kLong);
  return batch;
}

/// The loss of one training pass, then the gradient of each unit.
std::vector<at::Tensor> trained(const ModelOptions& model, const EngineOptions& options) {
  LocalCommunicator comm;
  ShardedModel sharded(build_model(model, at::kFloat, at::kCPU), comm, options, 9, at::kCPU);
  std::vector<at::Tensor> results{sharded.accumulate(batch_for(model.kind), 1.0, {})};
  sharded.finish_gradients();
  for (const auto& unit : sharded.units()) results.push_back(unit->gradient().clone());
  return results;
}

void expect_equal(const std::vector<at::Tensor>& results, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(results.size(), expected.size());
  for (std::size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(at::equal(results[i], expected[i])) << i;
}

class Kinds : public ::testing::TestWithParam<ModelKind> {
 protected:
  Kinds() { at::set_num_threads(1); }
};
INSTANTIATE_TEST_SUITE_P(All, Kinds,
                         ::testing::Values(ModelKind::kLlama, ModelKind::kGpt2, ModelKind::kGptNeoX,
                                           ModelKind::kT5, ModelKind::kVit, ModelKind::kDeepVit),
                         [](const auto& kind) { return std::string(word_of(kind.param)); });

void compare_policies_with_each_layer_in_another_type(const ModelOptions& model) {
  const auto built = build_model(model, at::kFloat, at::kCPU);
  for (const auto preset : {PrecisionPreset::kFp32, PrecisionPreset::kBf16Fp32Reduce}) {
    for (const Layer* layer : all_layers(*built)) {
      SCOPED_TRACE(layer->name());
      EngineOptions options{.precision = {.preset = preset}};
      options.precision.overrides = {
          {layer->name(), preset == PrecisionPreset::kFp32 ? FloatType::kBf16 : FloatType::kFp32}};
      const std::vector<at::Tensor> expected = trained(model, options);
      for (const auto policy : {RecomputePolicy::kSelective, RecomputePolicy::kFull}) {
        options.activations.policy = policy;
        SCOPED_TRACE(word_of(policy));
        expect_equal(trained(model, options), expected);
      }
    }
  }
}

TEST_P(Kinds, PoliciesGiveTheSameGradientsWithAnyLayerInAnotherType) {
  compare_policies_with_each_layer_in_another_type(small(GetParam()));
  if (!takes_images(GetParam())) compare_policies_with_each_layer_in_another_type(small(GetParam(), true));
}

/// The gradients of one training pass by name; of what `frozen` names, that there is none is expected.
std::map<std::string, at::Tensor> gradients(const ModelOptions& options, RecomputePolicy policy,
                                            const std::function<bool(const std::string&)>& frozen) {
  LocalCommunicator comm;
  auto model = build_model(options, at::kFloat, at::kCPU);
  bool any = false;
  for (Parameter* parameter : model->parameters()) {
    parameter->freeze(frozen);
    any = any || parameter->trained();
  }
  std::map<std::string, at::Tensor> found;
  if (!any) return found;
  ShardedModel sharded(std::move(model), comm, {.activations = {.policy = policy}}, 9, at::kCPU);
  (void)sharded.accumulate(batch_for(options.kind), 1.0, {});
  sharded.finish_gradients();
  for (const auto& unit : sharded.units()) {
    for (const SlicePiece& piece : unit->pieces()) {
      if (!unit->trains()) continue;
      const at::Tensor gradient = unit->gradient().narrow(0, piece.at, piece.numel());
      if (!piece.part->frozen) found[piece.part->name] = gradient.clone();
      EXPECT_TRUE(!piece.part->frozen || gradient.count_nonzero().item<int>() == 0) << piece.part->name;
    }
  }
  return found;
}

TEST_P(Kinds, WhatIsTrainedHasTheSameGradientWhateverElseIsFrozen) {
  const ModelOptions model = small(GetParam());
  const auto built = build_model(model, at::kFloat, at::kCPU);
  const auto expected = gradients(model, RecomputePolicy::kNone, [](const std::string&) { return false; });
  for (const Layer* layer : all_layers(*built)) {
    for (const bool all_but_it : {false, true}) {
      for (const auto policy :
           {RecomputePolicy::kNone, RecomputePolicy::kSelective, RecomputePolicy::kFull}) {
        SCOPED_TRACE(str(layer->name(), all_but_it ? " is trained, " : " is frozen, ", word_of(policy)));
        const auto mine = gradients(model, policy, [&](const std::string& name) {
          return name.starts_with(layer->name() + ".") != all_but_it;
        });
        // PyTorch chooses between forms of a product by what needs a gradient.
        for (const auto& [name, gradient] : mine)
          EXPECT_TRUE(at::allclose(gradient, expected.at(name), 1e-4, 1e-6)) << name;
      }
    }
  }
}

}  // namespace
}  // namespace echelon
