#include "optim/pattern_check.h"

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include "base/str.h"
#include "support/matches.h"
#include "support/small_models.h"

namespace echelon {
namespace {

std::unique_ptr<Model> llama(bool tied = false) {
  return build_model(test::small_options(tied), at::kFloat, at::kMeta);
}

std::vector<std::string> keys_of(const std::vector<PatternFault>& faults) {
  return mapped(faults, &PatternFault::key);
}

TEST(PatternCheck, FindsEveryPatternThatNamesNothing) {
  ShardOptions shard;
  shard.wrap.exclude = {"nothing"};
  shard.wrap.modules = {"model.layers.*", "model.layer.*"};
  shard.reshard_overrides = {{"*.attention", true}};
  const PrecisionOptions precision{.overrides = {{"lm_head", FloatType::kFp32}, {"head", FloatType::kFp32}}};
  const ActivationCheckpointingOptions activations{.policy = RecomputePolicy::kFull,
                                                   .modules = {"model.layers.2"}};
  const OptimOptions optim{.no_decay = {"*.bias", "*norm*"}, .lr_factors = {{"lm_head", 2}}};
  const auto model = llama();
  const auto faults = pattern_faults(*model, shard, precision, activations, optim);
  EXPECT_EQ(keys_of(faults),
            (std::vector<std::string>{"shard.wrap.exclude", "shard.wrap.modules", "shard.reshard_overrides",
                                      "precision.overrides", "activation_checkpointing.modules",
                                      "optim.no_decay", "optim.lr_factors"}));
  EXPECT_EQ(
      faults[5].text.rfind("optim.no_decay: pattern '*.bias' matches no parameter; names look like '", 0), 0U)
      << faults[5].text;
  EXPECT_EQ(faults[3].text.rfind("precision.overrides: pattern 'head' matches no module; this model has ", 0),
            0U)
      << faults[3].text;
}

TEST(PatternCheck, TakesWhatNamesSomething) {
  ShardOptions shard;
  shard.wrap.modules = {"*.mlp"};
  const OptimOptions optim{.no_decay = {"*norm*", "*embed*"}, .lr_factors = {{"lm_head.*", 2}}};
  const auto model = llama();
  EXPECT_TRUE(pattern_faults(*model, shard,
                             {.overrides = {{"*norm*", FloatType::kFp32}, {"lm_head", FloatType::kFp32}}}, {},
                             optim)
                  .empty());
  EXPECT_TRUE(pattern_faults(*model, {}, {}, {}, {}).empty());
}

TEST(PatternCheck, SaysOfATiedHeadThatItsWeightIsTheEmbeddings) {
  const auto faults = pattern_faults(*llama(true), {}, {}, {}, {.lr_factors = {{"lm_head.*", 0}}});
  ASSERT_EQ(keys_of(faults), std::vector<std::string>{"optim.lr_factors"});
  EXPECT_MENTIONS(faults[0].text, "tied (model.tie_embeddings)");
}

TEST(PatternCheck, FindsThatNothingIsTrained) {
  const auto model = llama();
  EXPECT_EQ(keys_of(pattern_faults(*model, {}, {}, {}, {.lr_factors = {{"*", 0}}})),
            std::vector<std::string>{"optim.lr_factors"});
  EXPECT_TRUE(pattern_faults(*model, {}, {}, {}, {.lr_factors = {{"*", 0}, {"*norm*", 1}}}).empty());
}

}  // namespace
}  // namespace echelon
