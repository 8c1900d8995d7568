#include "shapes/shapes.h"

#include <gtest/gtest.h>

#include <map>

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
    for (const Parameter::Part& part : parameter->parts()) {
      EXPECT_TRUE(built.emplace(part.name, part.shape).second) << part.name;
    }
  }
  EXPECT_EQ(built, described);
  EXPECT_EQ(model->numel(), parameter_count(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ModelShapes,
    testing::Values(ModelOptions{.kind = ModelKind::kLlama, .layers = 3},
                    ModelOptions{.kind = ModelKind::kLlama, .layers = 3, .tie_embeddings = true},
                    ModelOptions{.kind = ModelKind::kGpt2, .layers = 2, .max_positions = 64},
                    ModelOptions{.kind = ModelKind::kGpt2, .layers = 2, .tie_embeddings = true},
                    ModelOptions{.kind = ModelKind::kT5, .layers = 2, .tie_embeddings = true},
                    ModelOptions{.kind = ModelKind::kT5,
                                 .layers = 2,
                                 .decoder_layers = 3,
                                 .head_size = 20,
                                 .feed_forward = FeedForward::kGatedGelu},
                    ModelOptions{.kind = ModelKind::kVit, .layers = 2},
                    ModelOptions{.kind = ModelKind::kDeepVit, .layers = 2},
                    ModelOptions{.kind = ModelKind::kCnn, .image_size = 28, .channels = 1, .classes = 10}));

}  // namespace
}  // namespace echelon
