#include "recipe/model_presets.h"

#include <gtest/gtest.h>

#include <set>

#include "recipe/check/contradictions.h"
#include "recipe_support.h"
#include "support/matches.h"

namespace echelon {
namespace {

using test::parse;
using test::refusal;

std::string synthetic(const std::string& model) {
  return "model: " + model + "\n" + test::kSynthetic;
}

TEST(ModelPreset, FillsEveryKeyNotGivenAndSaysSo) {
  const LoadedRecipe loaded = parse(synthetic("{preset: llama_8b}"));
  EXPECT_EQ(loaded.recipe.model.preset, "llama_8b");
  EXPECT_EQ(loaded.recipe.model.kind, ModelKind::kLlama);
  EXPECT_EQ(loaded.recipe.model.vocab_size, 128256);
  EXPECT_EQ(loaded.recipe.model.intermediate_size, 14336);
  EXPECT_EQ(loaded.recipe.model.rope_theta, 500000.0);
  EXPECT_EQ(loaded.origins.at("model.vocab_size"), "preset llama_8b");
  EXPECT_EQ(loaded.origins.at("model.kind"), "preset llama_8b");
  EXPECT_EQ(loaded.origins.at("model.preset"), "r.yaml:1:17");
  EXPECT_EQ(loaded.origins.at("model.relative_buckets"), "default") << "a Llama has none";
  EXPECT_EQ(loaded.origins.at("optim.lr"), "default");
}

TEST(ModelPreset, GivesWayToAKeyBesideItFromAnyLayer) {
  const auto read = [](const std::filesystem::path&) {
    return std::string("model: {layers: 2, preset: llama_7b}\ndata: {kind: synthetic_tokens}\n");
  };
  const LoadedRecipe loaded = recipe::parse_recipe_text(
      "r.yaml", "include: base.yaml\nmodel: {vocab_size: 500, heads: 64, kv_heads: 64}\n",
      {"model.preset=llama_13b", "model.heads=40", "model.kv_heads=8"}, read);
  const ModelOptions& model = loaded.recipe.model;
  EXPECT_EQ(model.layers, 2);
  EXPECT_EQ(model.vocab_size, 500);
  EXPECT_EQ(model.heads, 40);
  EXPECT_EQ(model.kv_heads, 8);
  EXPECT_EQ(model.hidden_size, 5120);
  EXPECT_EQ(loaded.origins.at("model.layers"), "base.yaml:1:17");
  EXPECT_EQ(loaded.origins.at("model.heads"), "command line");
  EXPECT_EQ(loaded.origins.at("model.hidden_size"), "preset llama_13b");
}

TEST(ModelPreset, NoneIsTheDefaultAndChangesNothing) {
  EXPECT_EQ(to_yaml(parse(synthetic("{preset: none}")).recipe), to_yaml(parse(test::kSynthetic).recipe));
  EXPECT_EQ(parse(synthetic("{preset: llama_8b}"), {"model.preset=none"}).recipe.model.vocab_size, 50000);
}

TEST(ModelPreset, IsWrittenOutSoThatTheResolvedRecipeMeansTheSame) {
  const Recipe recipe = parse(synthetic("{preset: llama_1b, layers: 3}")).recipe;
  EXPECT_EQ(to_yaml(parse(to_yaml(recipe)).recipe), to_yaml(recipe));
}

TEST(ModelPreset, RefusesAnotherKindBesideIt) {
  const recipe::ModelPreset& preset = *recipe::find_model_preset("t5_3b");
  EXPECT_EQ(recipe::preset_problem(preset, ModelKind::kGpt2),
            "model.preset is t5_3b, a t5, but model.kind is gpt2; remove model.kind, or name a preset of "
            "gpt2: gpt2, "
            "gpt2_medium, gpt2_large, gpt2_xl, gpt_175b, gpt_1t");
  EXPECT_EQ(recipe::preset_problem(*recipe::find_model_preset("llama_8b"), ModelKind::kLlama), "");
}

TEST(ModelPreset, ThatDoesNotExistIsRefusedOnce) {
  const std::string message = refusal(synthetic("{preset: llama_9b}"));
  EXPECT_MENTIONS(message, "r.yaml:1:17: model.preset: 'llama_9b' is not a valid value");
  EXPECT_FALSE(test::mentions(message, "\n"));
}

TEST(ModelPresets, AreSoundModelsThatSetOnlyWhatTheirKindUses) {
  std::set<std::string> names;
  for (const recipe::ModelPreset& preset : recipe::model_presets()) {
    EXPECT_TRUE(names.insert(preset.name).second) << preset.name;
    Recipe recipe;
    recipe.model = preset.model;
    recipe::Conflicts found;
    recipe::find_model_conflicts(recipe.model, found);
    recipe::find_contradictions(recipe, found);
    for (const recipe::Conflict& conflict : found.all) ADD_FAILURE() << preset.name << ": " << conflict.text;
  }
  EXPECT_GE(names.size(), 28u);
}

TEST(ModelPresets, OfAKindAreFoundByIt) {
  std::size_t count = 0;
  for (const std::string_view word : kWords<ModelKind>) {
    const auto names = recipe::presets_of(choice_of<ModelKind>(word).value());
    EXPECT_FALSE(names.empty()) << word;
    count += names.size();
  }
  EXPECT_EQ(count, recipe::model_presets().size());
}

}  // namespace
}  // namespace echelon
