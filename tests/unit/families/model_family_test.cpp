#include "families/model_family.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace echelon::families {
namespace {

nlohmann::json config_of(const ModelOptions& model) {
  return nlohmann::json::parse(hugging_face_config(model));
}

TEST(HuggingFaceConfig, OfALlamaStatesTheArchitecture) {
  const auto config =
      config_of({.hidden_size = 24, .heads = 4, .kv_heads = 2, .rope_theta = 5e5, .tie_embeddings = true});
  EXPECT_EQ(config["architectures"][0], "LlamaForCausalLM");
  EXPECT_EQ(config["num_key_value_heads"], 2);
  EXPECT_EQ(config["head_dim"], 6);
  EXPECT_EQ(config["rope_theta"], 5e5);
  EXPECT_EQ(config["tie_word_embeddings"], true);
}

TEST(HuggingFaceConfig, OfAT5StatesTheArchitecture) {
  const auto config = config_of({.kind = ModelKind::kT5,
                                 .hidden_size = 24,
                                 .heads = 4,
                                 .decoder_layers = 3,
                                 .head_size = 5,
                                 .feed_forward = FeedForward::kGatedGelu});
  EXPECT_EQ(config["architectures"][0], "T5ForConditionalGeneration");
  EXPECT_EQ(config["feed_forward_proj"], "gated-gelu");
  EXPECT_EQ(config["d_kv"], 5);
  EXPECT_EQ(config["num_decoder_layers"], 3);
  EXPECT_EQ(config["tie_word_embeddings"], false);
}

TEST(HuggingFaceConfig, OfAModelOfImagesStatesWhatItIsBuiltFrom) {
  for (const ModelKind kind : {ModelKind::kVit, ModelKind::kDeepVit, ModelKind::kCnn}) {
    const auto config = config_of({.kind = kind, .image_size = 12, .channels = 3});
    EXPECT_EQ(config["model_type"], std::string(word_of(kind)));
    EXPECT_EQ(config["image_size"], 12);
    EXPECT_EQ(config["num_channels"], 3);
  }
}

}  // namespace
}  // namespace echelon::families
