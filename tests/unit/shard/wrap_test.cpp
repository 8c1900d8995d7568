#include "shard/wrap.h"

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/str.h"
#include "support/matches.h"
#include "support/refusal.h"
#include "support/small_models.h"

namespace echelon {
namespace {

/// "name:parameters" of every unit that has some. Hidden 8, inner 12: norms 8, attention 8*8*2 + 2*4*8 = 192,
/// mlp 3*8*12 = 288, a block 496; embedding and head 104 each.
std::string units(const ShardOptions& options, bool tied = false, const PrecisionOptions& precision = {},
                  const LoraOptions& lora = {}) {
  const auto model = build_model(test::small_options(tied), at::kFloat, at::kCPU, lora);
  std::vector<std::string> found;
  std::int64_t total = 0;
  for (const UnitPlan& unit : plan_units(*model, options, precision)) {
    total += unit.numel();
    if (unit.numel() > 0) found.push_back(str(unit.name, ":", unit.numel()));
  }
  EXPECT_EQ(total, model->numel()) << "every parameter is in exactly one unit";
  return join(found, " ");
}

ShardOptions policy(const std::string& name) {
  ShardOptions options;
  options.wrap.policy = choice_of<WrapPolicy>(name).value();
  return options;
}

TEST(Wrap, TransformerMakesAUnitOfEachLayer) {
  EXPECT_EQ(units(policy("transformer")),
            "model.embed_tokens:104 model.layers.0:496 model.layers.1:496 lm_head:112");
}

TEST(Wrap, ATiedWeightLiesInTheInnermostUnitThatContainsItsUsers) {
  EXPECT_EQ(units(policy("transformer"), true), "root:104 model.layers.0:496 model.layers.1:496 lm_head:8");
  EXPECT_EQ(units(policy("none"), true), "root:1104");
}

TEST(Wrap, WhatIsTrainedInAPartlyFrozenRootIsAUnitOfItsOwn) {
  // A and B of rank 1 of k_proj, in both blocks.
  const LoraOptions lora{.rank = 1, .modules = {"k_proj"}};
  EXPECT_EQ(units(policy("none"), true, {}, lora), "root:1104 root.trained:24");
  EXPECT_EQ(units(policy("transformer"), true, {}, lora),
            "root:104 root.trained:24 model.layers.0:496 model.layers.1:496 lm_head:8");
  EXPECT_EQ(units(policy("transformer"), false, {}, lora),
            "root:24 model.embed_tokens:104 model.layers.0:496 model.layers.1:496 lm_head:112");
}

TEST(Wrap, MatricesOfFp8ProductsAreUnitsWithoutTheRest) {
  const auto model = build_model(test::small_options(), {at::kBFloat16, at::kBFloat16, true}, at::kCPU);
  const auto fp8_units = [&](const char* name) {
    std::vector<std::string> found;
    for (const UnitPlan& unit : plan_units(*model, policy(name), {.param = FloatType::kBf16})) {
      if (unit.numel() > 0) found.push_back(str(unit.name, ":", unit.numel(), unit.fp8 ? " fp8" : ""));
    }
    return join(found, ", ");
  };
  EXPECT_EQ(fp8_units("transformer"),
            "root:32, model.embed_tokens:104, model.layers.0:480 fp8, model.layers.1:480 fp8, lm_head:112");
  EXPECT_EQ(fp8_units("none"), "root:248, root.fp8:960 fp8");
}

TEST(Wrap, UnitsThatAreFrozenKeepTheirWeightsInATypeOfTheirOwn) {
  const auto model =
      build_model(test::small_options(true), at::kFloat, at::kCPU, {.rank = 1, .also_train = {"model.norm"}});
  for (const UnitPlan& unit : plan_units(*model, policy("transformer"), {.frozen = FloatType::kBf16})) {
    const bool trained = unit.name == "root.trained" || unit.name == "lm_head";
    EXPECT_EQ(unit.master, trained ? at::kFloat : at::kBFloat16) << unit.name;
  }
  for (const UnitPlan& unit : plan_units(*model, policy("transformer"), {}))
    EXPECT_EQ(unit.master, at::kFloat) << unit.name;
}

TEST(Wrap, NoneIsOneUnit) {
  EXPECT_EQ(units(policy("none")), "root:1208");
}

TEST(Wrap, SizeBasedGoesBottomUpAsFsdp1) {
  ShardOptions options = policy("size_based");
  options.wrap.min_params = 250;  // of a block only the mlp is large; what is left of it (208) is not
  EXPECT_EQ(units(options), "root:632 model.layers.0.mlp:288 model.layers.1.mlp:288");
  options.wrap.min_params = 200;  // now the rest of the block is
  EXPECT_EQ(units(options),
            "root:216 model.layers.0:208 model.layers.0.mlp:288 model.layers.1:208 model.layers.1.mlp:288");
  options.wrap.min_params = 1'000'000;
  EXPECT_EQ(units(options), "root:1208");
}

TEST(Wrap, SizeBasedNeverWrapsWhatIsExcluded) {
  EXPECT_EQ(units({.wrap = {.policy = WrapPolicy::kSizeBased, .min_params = 250, .exclude = {"*.mlp"}}}),
            "root:216 model.layers.0:496 model.layers.1:496");
}

TEST(Wrap, ModulesAreThosePatternsName) {
  EXPECT_EQ(units({.wrap = {.policy = WrapPolicy::kModules, .modules = {"model.layers.1", "*.self_attn"}}}),
            "root:520 model.layers.0.self_attn:192 model.layers.1:304 model.layers.1.self_attn:192");
}

TEST(Wrap, AModuleOfAnotherPrecisionIsAUnitOfItsOwn) {
  PrecisionOptions precision{.preset = PrecisionPreset::kBf16};
  precision.overrides = {{"*norm", FloatType::kFp32}, {"model.layers.1.*", FloatType::kBf16}};
  EXPECT_EQ(units(policy("transformer"), false, precision),
            "model.embed_tokens:104 model.layers.0:480 model.layers.0.input_layernorm:8 "
            "model.layers.0.post_attention_layernorm:8 model.layers.1:496 lm_head:104 model.norm:8");
}

TEST(Wrap, ATiedWeightHasThePrecisionOfTheHead) {
  PrecisionOptions precision{.preset = PrecisionPreset::kBf16, .overrides = {{"lm_head", FloatType::kFp32}}};
  EXPECT_EQ(units(policy("transformer"), true, precision),
            "root.shared:104 model.layers.0:496 model.layers.1:496 lm_head:8");
  EXPECT_EQ(units(policy("none"), true, precision), "root:992 root.shared:104 lm_head:8");
  const auto model = build_model(test::small_options(true), at::kFloat, at::kCPU);
  for (const UnitPlan& unit : plan_units(*model, policy("none"), precision)) {
    const bool in_root = unit.name == "root";  // of which the embedding casts what it looks up
    EXPECT_EQ(unit.compute, in_root ? at::kBFloat16 : at::kFloat) << unit.name;
    EXPECT_TRUE(unit.layer == nullptr || unit.outer == at::kBFloat16) << unit.name;
  }
  precision.overrides = {{"model.embed_tokens", FloatType::kFp32}};
  EXPECT_EQ(units(policy("none"), true, precision), "root:1104");
}

TEST(Wrap, APatternThatMatchesNothingIsRefusedByName) {
  const auto modules = [] {
    return units({.wrap = {.policy = WrapPolicy::kModules, .modules = {"model.layer.*"}}});
  };
  EXPECT_MENTIONS(test::refusal(Code::kUsage, modules), "shard.wrap.modules: pattern 'model.layer.*'",
                  "model.layers.0");
  EXPECT_THROW((void)units({.reshard_overrides = {{"nothing", true}}}), Error);
  EXPECT_THROW((void)units({}, false, {.overrides = {{"nothing", FloatType::kFp32}}}), Error);
}

TEST(Wrap, ReshardingIsDecidedByTheLastPatternThatMatches) {
  const ShardOptions options{.reshard_overrides = {{"model.layers.*", false}, {"model.layers.1", true}}};
  const auto model = build_model(test::small_options(), at::kFloat, at::kCPU);
  for (const UnitPlan& unit : plan_units(*model, options, {})) {
    const bool kept = unit.name == "model.layers.0" || unit.name == "root";
    EXPECT_EQ(unit.weights, kept ? Strategy::Weights::kPass : Strategy::Weights::kLayer) << unit.name;
  }
}

/// The units of transformers that the tree of `model` prints.
std::vector<std::string> tree_of(const Model& model) {
  return describe_units(plan_units(model, {}, {}), 2, [](const Parameter::Part&) { return 8; });
}

TEST(Wrap, TheTreePrintsUnitsOfOneKindOnce) {
  const auto model = build_model(test::small_options(), at::kFloat, at::kCPU);
  const auto lines = tree_of(*model);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_MENTIONS(lines[1], "model.layers.0 to model.layers.1 (2 units)", "496 parameters each");
}

TEST(Wrap, TheTreeTellsWhatIsFrozen) {
  const auto model = build_model(test::small_options(), at::kFloat, at::kCPU);
  for (Parameter* parameter : model->parameters()) {
    parameter->freeze([](const std::string& name) {
      return matches("model.layers.0.*", name) || matches("model.layers.1.*norm*", name);
    });
  }
  const auto lines = tree_of(*model);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_TRUE(lines[1].ends_with("kept 1.0 KiB a rank, frozen")) << lines[1];
  EXPECT_TRUE(lines[2].ends_with("kept 3.9 KiB a rank, in part frozen")) << lines[2];
  EXPECT_EQ(lines[0].find("frozen") + lines[3].find("frozen"), 2 * std::string::npos);
}

}  // namespace
}  // namespace echelon
