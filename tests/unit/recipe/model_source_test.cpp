#include "recipe/model_source.h"

#include <gtest/gtest.h>

#include <fstream>

#include "recipe_support.h"
#include "support/matches.h"
#include "support/temp_dir.h"

namespace echelon {
namespace {

using test::parse;
using test::refusal;

constexpr const char* kConfig = R"({"model_type": "qwen3", "hidden_size": 32, "intermediate_size": 48,
  "vocab_size": 90, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
  "max_position_embeddings": 1024, "rms_norm_eps": 1e-6, "rope_theta": 5000.0, "sliding_window": null,
  "tie_word_embeddings": true})";

/// A folder "hf" with this config.json, without weights.
class ModelFrom : public ::testing::Test {
 protected:
  void SetUp() override { write(kConfig); }
  void write(const std::string& config) const {
    std::filesystem::create_directories(folder());
    std::ofstream(folder() / "config.json") << config;
  }
  [[nodiscard]] std::filesystem::path folder() const { return dir_.path() / "hf"; }
  [[nodiscard]] std::string recipe(const std::string& beside = "") const {
    return "model: {from: " + folder().string() + beside + "}\n" + test::kSynthetic;
  }
  /// Without what is said of the folder's place.
  [[nodiscard]] std::string said_of(const std::string& beside) const {
    return test::without(refusal(recipe(beside)), dir_.path().string() + "/");
  }

 private:
  test::TempDir dir_;
};

TEST_F(ModelFrom, SetsEveryKeyAndSaysSo) {
  const LoadedRecipe loaded = parse(recipe());
  const ModelOptions& model = loaded.recipe.model;
  EXPECT_EQ(model.kind, ModelKind::kQwen3);
  EXPECT_EQ(model.hidden_size, 32);
  EXPECT_EQ(model.head_size, 6);
  EXPECT_EQ(model.rope_theta, 5000.0);
  EXPECT_TRUE(model.tie_embeddings);
  const std::string origin = "config.json of '" + folder().string() + "'";
  for (const char* key : {"model.kind", "model.layers", "model.window", "model.tie_embeddings"})
    EXPECT_EQ(loaded.origins.at(key), origin) << key;
  EXPECT_EQ(loaded.origins.at("model.init_std"), "default");
  EXPECT_EQ(loaded.origins.at("model.relative_buckets"), "default") << "it has none";
  EXPECT_EQ(loaded.origins.at("model.from"), "r.yaml:1:15");
}

TEST_F(ModelFrom, AllowsKeysBesideItThatAgreeOrThatItDoesNotKnow) {
  const LoadedRecipe loaded = parse(recipe(", layers: 2, init_std: 0.5"));
  EXPECT_EQ(loaded.origins.at("model.layers"), "r.yaml:1:" + std::to_string(folder().string().size() + 25));
  EXPECT_EQ(loaded.recipe.model.init_std, 0.5);
}

TEST_F(ModelFrom, SaysNothingOfAdapters) {
  const LoadedRecipe loaded = parse(recipe() + "lora: {rank: 4}\n");
  EXPECT_EQ(loaded.recipe.lora.rank, 4);
  EXPECT_EQ(loaded.recipe.model.hidden_size, 32);
}

TEST_F(ModelFrom, RefusesKeysThatContradictByName) {
  const std::string text = said_of(", hidden_size: 64, window: 5");
  EXPECT_MENTIONS(text, "model.hidden_size is 64, but 32 by config.json of 'hf' (model.from); remove it",
                  "model.window is 5, but 0 by config.json of 'hf' (model.from); remove it");
  EXPECT_MENTIONS(said_of(", preset: llama_8b"),
                  "which sets the model and its weights, and model.preset is "
                  "llama_8b; remove one of them");
}

TEST_F(ModelFrom, SaysWhyAFolderCannotBeRead) {
  write(R"({"model_type": "mamba"})");
  EXPECT_MENTIONS(said_of(""), "model.from: 'hf/config.json': model_type 'mamba' cannot be imported");
  std::filesystem::remove(folder() / "config.json");
  EXPECT_MENTIONS(said_of(""), "model.from: folder 'hf' has no config.json; expected a Hugging Face folder");
  std::ofstream(folder() / "adapter_config.json") << "{}";
  EXPECT_MENTIONS(said_of(""),
                  "it holds an adapter of peft: echelon-ckpt import 'hf' --base FOLDER --output "
                  "'hf-imported' makes a checkpoint of it");
  std::filesystem::remove(folder() / "adapter_config.json");
  std::filesystem::create_directory(folder() / "checkpoints");
  EXPECT_MENTIONS(said_of(""), "it is a run or a checkpoint: name it in checkpoint.init_from");
  std::filesystem::remove_all(folder());
  EXPECT_MENTIONS(said_of(""), "model.from: there is no folder 'hf'");
  EXPECT_MENTIONS(refusal("model: {from: meta-llama/Llama-3.2-1B}\n" + std::string(test::kSynthetic)),
                  "model.from: there is no folder 'meta-llama/Llama-3.2-1B': models are not downloaded; run");
}

TEST_F(ModelFrom, IsWrittenOutSoThatTheRecipeOutlivesTheFolder) {
  const Recipe first = parse(recipe()).recipe;
  const std::string text = to_yaml(first);
  EXPECT_EQ(to_yaml(parse(text).recipe), text);
  std::filesystem::remove_all(folder());
  EXPECT_EQ(to_yaml(parse(text).recipe), text);
  EXPECT_EQ(to_yaml(recipe::parse_stored_recipe("recipe.yaml", text)), text);
}

}  // namespace
}  // namespace echelon
