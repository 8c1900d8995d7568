#include "shapes/shapes.h"

#include <gtest/gtest.h>

#include <map>
#include <string_view>
#include <vector>

#include "model/model.h"

namespace echelon {
namespace {

using Shapes = std::map<std::string, Dimensions>;

class ModelShapes : public testing::TestWithParam<ModelOptions> {};

TEST_P(ModelShapes, AreTheParametersOfTheTree) {
  Shapes described;
  for (const TensorShape& tensor : tensors_of(GetParam())) described[tensor.name] = tensor.dimensions;
  Shapes built;
  const auto model = build_model(GetParam(), at::kFloat, at::kCPU);
  for (const Parameter* parameter : model->parameters()) {
    EXPECT_FALSE(parameter->value.defined() || parameter->gradient.defined())
        << "no memory until it is needed";
    for (const Parameter::Part& part : parameter->parts()) {
      EXPECT_TRUE(built.emplace(part.name, part.shape).second) << part.name;
    }
  }
  EXPECT_EQ(built, described);
  EXPECT_EQ(model->numel(), parameter_count(GetParam()));
}

/// Every kind with the defaults of a recipe, and what else changes a tree.
std::vector<ModelOptions> models() {
  std::vector<ModelOptions> all;
  for (const std::string_view kind : kWords<ModelKind>)
    all.push_back({.kind = choice_of<ModelKind>(kind).value(), .layers = 3});
  for (const ModelKind kind : {ModelKind::kLlama, ModelKind::kGpt2, ModelKind::kGptNeoX, ModelKind::kT5})
    all.push_back({.kind = kind, .layers = 2, .tie_embeddings = true});
  all.push_back({.kind = ModelKind::kGpt2, .layers = 2, .max_positions = 64});
  all.push_back({.kind = ModelKind::kT5,
                 .layers = 2,
                 .decoder_layers = 3,
                 .head_size = 20,
                 .feed_forward = FeedForward::kGatedGelu});
  all.push_back({.kind = ModelKind::kCnn, .image_size = 28, .channels = 1, .classes = 10});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Models, ModelShapes, testing::ValuesIn(models()));

}  // namespace
}  // namespace echelon
