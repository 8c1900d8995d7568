#include "shapes/lora.h"

#include <gtest/gtest.h>

#include "base/str.h"
#include "support/matches.h"
#include "support/small_models.h"

namespace echelon {
namespace {

ModelOptions small(ModelKind kind = ModelKind::kLlama) {
  ModelOptions options = test::small_options();
  options.kind = kind;
  return options;
}

std::vector<std::string> modules(const std::vector<std::string>& patterns) {
  return mapped(adapted_matrices(small(), {.rank = 2, .modules = patterns}), &AdaptedMatrix::module);
}

TEST(Lora, AdaptsEveryMatrixOfTheBlocksUnlessPatternsChoose) {
  EXPECT_EQ(modules({}).size(), 2 * 7U);
  EXPECT_EQ(modules({"q_proj"}),
            (std::vector<std::string>{"model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"}));
  EXPECT_EQ(modules({"layers.1.mlp.*_proj"}).size(), 3U);
  EXPECT_EQ(modules({"model.layers.0.mlp.up_proj"}), std::vector<std::string>{"model.layers.0.mlp.up_proj"});
  EXPECT_TRUE(adapted_matrices(small(), {}).empty());
}

TEST(Lora, TensorsHaveTheNamesAndShapesOfPeft) {
  const LoraOptions lora{.rank = 3, .modules = {"layers.0.*.k_proj"}};
  const std::vector<TensorShape> all = tensors_of(small(), lora);
  ASSERT_EQ(all.size(), tensors_of(small()).size() + 2);
  EXPECT_EQ(all[all.size() - 2].name, "model.layers.0.self_attn.k_proj.lora_A.weight");
  EXPECT_EQ(all[all.size() - 2].dimensions, (Dimensions{3, 8}));
  EXPECT_EQ(all.back().name, "model.layers.0.self_attn.k_proj.lora_B.weight");
  EXPECT_EQ(all.back().dimensions, (Dimensions{4, 3}));
  EXPECT_EQ(adapter_parameters(small(), lora), 3 * 8 + 4 * 3);
}

TEST(Lora, TrainsAdaptersAndWhatIsNamedBesides) {
  const LoraOptions lora{.rank = 3, .also_train = {"lm_head", "model.norm"}};
  for (const char* trained :
       {"lm_head.weight", "model.norm.weight", "model.layers.0.mlp.up_proj.lora_B.weight"})
    EXPECT_TRUE(is_trained(lora, trained)) << trained;
  for (const char* frozen : {"model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight",
                             "model.layers.0.input_layernorm.weight"})
    EXPECT_FALSE(is_trained(lora, frozen)) << frozen;
  EXPECT_TRUE(is_trained({}, "model.embed_tokens.weight")) << "without adapters";
  EXPECT_EQ(modules_trained_whole(small(), lora), (std::vector<std::string>{"model.norm", "lm_head"}));
}

TEST(Lora, ScaleIsAlphaByRankOrByItsRoot) {
  EXPECT_EQ(lora_scale({.rank = 4, .alpha = 16}), 4.0);
  EXPECT_EQ(lora_scale({.rank = 4, .alpha = 16, .use_rslora = true}), 8.0);
}

TEST(Lora, TargetsOfPeftAreShortWhereAllBlocksHaveThem) {
  const LoraOptions lora{.rank = 1, .modules = {"q_proj", "layers.1.mlp.up_proj"}};
  EXPECT_EQ(target_modules(small(), lora),
            (std::vector<std::string>{"q_proj", "model.layers.1.mlp.up_proj"}));
}

std::string fault(const LoraOptions& lora, ModelKind kind = ModelKind::kLlama) {
  const std::vector<LoraFault> faults = lora_faults(small(kind), lora);
  return faults.empty() ? "" : faults.front().text;
}

TEST(Lora, RefusesWhatWouldTrainSomethingElseThanMeant) {
  EXPECT_EQ(fault({.rank = 2, .modules = {"*_proj"}, .also_train = {"lm_head"}}), "");
  EXPECT_EQ(
      fault({.rank = 2, .modules = {"query"}}),
      "lora.modules: pattern 'query' matches no module; expected some of q_proj, k_proj, v_proj, o_proj, "
      "gate_proj, up_proj, down_proj");
  EXPECT_EQ(
      fault({.rank = 2, .modules = {"*norm"}}),
      "lora.modules: pattern '*norm' matches 'model.layers.0.input_layernorm', which can have no adapter; "
      "those that can are q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, and "
      "lora.also_train trains others whole");
  EXPECT_NE(fault({.rank = 2, .modules = {"lm_head"}}), "");
  EXPECT_NE(fault({.rank = 2, .also_train = {"head"}}), "");
  EXPECT_MENTIONS(fault({.rank = 2, .also_train = {"mlp.up_proj"}}), "also has an adapter");
  EXPECT_EQ(fault({.rank = 2}, ModelKind::kGpt2),
            "lora.rank is 2, but model.kind: gpt2 can have no adapters; set lora.rank: 0, or use a kind "
            "that can: llama, mistral, qwen2, qwen3, olmo2, olmo3, smollm3, granite, phi3, gemma3_text, "
            "gpt_neox");
  EXPECT_EQ(fault({}, ModelKind::kGpt2), "");
  EXPECT_EQ(fault({.rank = 2, .modules = {"query_key_value"}}, ModelKind::kGptNeoX), "");
}

}  // namespace
}  // namespace echelon
