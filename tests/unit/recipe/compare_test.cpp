#include "recipe/compare.h"

#include <gtest/gtest.h>

#include "recipe/load.h"
#include "recipe_support.h"
#include "support/matches.h"

namespace echelon {
namespace {

using test::kSynthetic;
using test::parse;

std::string changed(const std::vector<std::string>& then, const std::vector<std::string>& now) {
  return recipe::describe(recipe::changes(parse(kSynthetic, then).recipe, parse(kSynthetic, now).recipe));
}

TEST(RecipeChanges, NameEachKeyWithBothValues) {
  EXPECT_EQ(changed({"optim.lr=0.001", "train.global_batch_size=8"},
                    {"optim.lr=0.002", "train.global_batch_size=16", "optim.no_decay=[\"*.bias\"]"}),
            "optim.lr 0.001 -> 0.002, optim.no_decay [] -> [\"*.bias\"], train.global_batch_size 8 -> 16");
}

TEST(RecipeChanges, OfTheSameRecipeInOtherWordsAreNone) {
  const Recipe recipe = parse(kSynthetic, {"model.rope_theta=1e4", "model.kv_heads=3"}).recipe;
  EXPECT_TRUE(recipe::changes(recipe, parse(to_yaml(recipe)).recipe).empty());
  const std::vector<std::string> t5{"model.kind=t5", "data.kind=synthetic_pairs", "model.layers=4"};
  std::vector<std::string> full = t5;
  full.insert(full.end(), {"model.decoder_layers=4", "model.head_size=64"});
  EXPECT_EQ(changed(t5, full), "");
  EXPECT_EQ(changed({}, {"model.head_size=64"}), "");
  EXPECT_EQ(changed({"model.head_size=32"}, {}), "model.head_size 32 -> 64");
}

TEST(RecipeChanges, OfKeysThatMeanNothingInEitherAreLeftOut) {
  Recipe then = parse(kSynthetic).recipe;
  Recipe now = then;
  now.model.relative_buckets = 64;
  EXPECT_TRUE(recipe::changes(then, now).empty());
}

TEST(RecipeChanges, LongValuesAreCut) {
  EXPECT_LT(changed({}, {"optim.no_decay=[\"" + std::string(190, 'a') + "\"]"}).size(), 120U);
}

TEST(RecipeChanges, OfTheModelAreThoseThatItComputesWith) {
  const auto model = recipe::of_model(recipe::changes(
      parse(kSynthetic).recipe, parse(kSynthetic, {"model.rope_theta=5e5", "model.norm_eps=1e-6",
                                                   "model.heads=6", "model.init_std=0.1", "optim.lr=0.002"})
                                    .recipe));
  EXPECT_EQ(recipe::describe(model),
            "model.heads 12 -> 6, model.norm_eps 1.0e-05 -> 1.0e-06, model.rope_theta 10000.0 -> 5.0e+05");
  EXPECT_FALSE(recipe::describes_model("model.dropout"));
  EXPECT_FALSE(recipe::describes_model("train.steps"));
}

TEST(RecipeChanges, AdaptersThatAreNewLeaveTheBaseAsItWas) {
  const Recipe none = parse(kSynthetic).recipe;
  const Recipe some = parse(kSynthetic, {"lora.rank=4"}).recipe;
  const Recipe other = parse(kSynthetic, {"lora.rank=4", "lora.alpha=8", "lora.dropout=0.1"}).recipe;
  EXPECT_EQ(recipe::describe(recipe::of_model(recipe::changes(none, some))), "lora.rank 0 -> 4");
  EXPECT_TRUE(recipe::of_base(recipe::changes(none, some)).empty());
  EXPECT_EQ(recipe::describe(recipe::of_base(recipe::changes(some, other))), "lora.alpha 16.0 -> 8.0");
}

TEST(RecipeChanges, ModulesWithAdaptersMayBeNamedInManyWays) {
  const auto changed = [](const std::string& then, const std::string& now) {
    return !recipe::changes(parse(kSynthetic, {"lora.rank=4", "lora.modules=" + then}).recipe,
                            parse(kSynthetic, {"lora.rank=4", "lora.modules=" + now}).recipe)
                .empty();
  };
  EXPECT_FALSE(changed("[q_proj, v_proj]", "['*.v_proj', self_attn.q_proj]"));
  EXPECT_FALSE(changed("[]", "['*_proj']"));
  EXPECT_TRUE(changed("[q_proj, v_proj]", "[q_proj]"));
  EXPECT_TRUE(changed("[q_proj]", "[layers.0.self_attn.q_proj]"));
}

TEST(StoredRecipe, IsReadWhateverItsKeysSayAgainstEachOther) {
  Recipe odd = parse(kSynthetic).recipe;
  odd.model.kv_heads = 5;  // divides nothing: another version may have allowed it
  EXPECT_FALSE(test::mentions(test::refusal(to_yaml(odd)), "accepted"));
  EXPECT_EQ(recipe::parse_stored_recipe("recipe.yaml", to_yaml(odd)).model.kv_heads, 5);
}

TEST(StoredRecipe, IsRefusedWhereItIsNone) {
  EXPECT_THROW((void)recipe::parse_stored_recipe("recipe.yaml", "model: 7\n"), Error);
  EXPECT_THROW((void)recipe::parse_stored_recipe("recipe.yaml", "include: /etc/passwd\n"), Error);
}

}  // namespace
}  // namespace echelon
