#include "shapes/shapes.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string_view>

#include "base/error.h"

namespace echelon {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(ParameterCount, OfALlamaIsThatOfTheWeightsAddedUp) {
  ModelOptions model;
  model.vocab_size = 11;
  model.hidden_size = 8;
  model.intermediate_size = 20;
  model.layers = 3;
  model.heads = 4;
  model.kv_heads = 2;
  const std::int64_t query_and_output = 2 * 8 * 8;
  const std::int64_t key_and_value = 2 * 8 * 4;
  const std::int64_t gate_up_down = 3 * 8 * 20;
  const std::int64_t layer = query_and_output + key_and_value + gate_up_down + 2 * 8;
  EXPECT_EQ(parameter_count(model), 3 * layer + 8 + 2 * 11 * 8);
  model.tie_embeddings = true;
  EXPECT_EQ(parameter_count(model), 3 * layer + 8 + 11 * 8);
}

TEST(ParameterCount, OfTheDefaultsIsThePublishedModels) {
  EXPECT_EQ(parameter_count(ModelOptions()), 179'448'576);
}

TEST(ParameterCount, IsNothingRatherThanWrapped) {
  ModelOptions model;
  model.layers = kMax / 2;
  EXPECT_EQ(parameter_count(model), std::nullopt);
  for (const ModelKind kind :
       {ModelKind::kLlama, ModelKind::kGpt2, ModelKind::kT5, ModelKind::kVit, ModelKind::kDeepVit}) {
    model = {.kind = kind, .intermediate_size = kMax / 3};
    EXPECT_EQ(parameter_count(model), std::nullopt) << word_of(kind);
  }
  model = {.kind = ModelKind::kCnn, .classes = kMax / 3};
  EXPECT_EQ(parameter_count(model), std::nullopt);
}

TEST(Shapes, NameEachTensorOnce) {
  for (const std::string_view kind : kWords<ModelKind>) {
    const ModelOptions model{.kind = choice_of<ModelKind>(kind).value(), .layers = 3};
    std::set<std::string> names;
    std::int64_t elements = 0;
    for (const TensorShape& tensor : tensors_of(model)) {
      EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
      std::int64_t product = 1;
      for (const std::int64_t size : tensor.dimensions) product *= size;
      elements += product;
    }
    EXPECT_EQ(parameter_count(model), elements) << kind;
  }
}

TEST(Shapes, OfAT5HavePositionBiasesInTheFirstBlocksOnly) {
  const ShapeTable shapes(ModelOptions{.kind = ModelKind::kT5, .layers = 2, .decoder_layers = 3});
  EXPECT_EQ(shapes.at("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
            (Dimensions{32, 12}));
  EXPECT_FALSE(shapes.has("decoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"));
  EXPECT_TRUE(shapes.has("decoder.block.2.layer.1.EncDecAttention.q.weight"));
  EXPECT_FALSE(shapes.has("encoder.block.2.layer.0.SelfAttention.q.weight"));
}

TEST(Shapes, TableRefusesANameThatTheModelDoesNotHave) {
  const ShapeTable tied(ModelOptions{.tie_embeddings = true});
  EXPECT_THROW((void)tied.at("lm_head.weight"), Error);
}

}  // namespace
}  // namespace echelon
