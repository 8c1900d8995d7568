#include "model/model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "support/small_models.h"
#include "unit/model/tensors.h"

namespace echelon {
namespace {

using test::built;

ModelOptions small(bool tied) {
  return test::lively_options(3, tied);
}

/// Rows of equal length.
Batch prompts_of(const at::Tensor& ids) {
  Batch batch;
  batch.ids = ids.flatten();
  batch.sequences = make_sequences(ids.size(0), ids.size(1));
  return batch;
}

template <class F>
void for_each_part(const Model& model, const F& f) {
  for (const Parameter* parameter : model.parameters()) {
    for (const Parameter::Part& part : parameter->parts()) f(*parameter, part);
  }
}

TEST(Model, CountsItsParameters) {
  // embedding + 3 * (q, k, v, o; gate, up, down; two norms) + norm, and a head when untied
  const std::int64_t block = 24 * 24 * 2 + 2 * 12 * 24 + 3 * 24 * 40 + 2 * 24;
  const std::int64_t tied = 61 * 24 + 3 * block + 24;
  EXPECT_EQ(build_model(small(true), at::kFloat, at::kCPU)->numel(), tied);
  EXPECT_EQ(build_model(small(false), at::kFloat, at::kCPU)->numel(), tied + 61 * 24);
  EXPECT_EQ(build_model(ModelOptions{}, at::kFloat, at::kCPU)->numel(), 179'448'576);
}

TEST(Model, TakesNoMemoryForWeightsUntilAnOwnerDoes) {
  const auto model = build_model(small(true), at::kFloat, at::kCPU);
  for_each_part(*model, [](const Parameter& parameter, const Parameter::Part&) {
    EXPECT_FALSE(parameter.value.defined());
    EXPECT_FALSE(parameter.gradient.defined());
  });
}

TEST(Model, EveryTensorHasANameOfItsOwn) {
  for (const bool tied : {false, true}) {
    std::set<std::string> names;
    std::size_t parts = 0;
    for_each_part(*build_model(small(tied), at::kFloat, at::kCPU),
                  [&](const Parameter&, const Parameter::Part& part) {
                    names.insert(part.name);
                    ++parts;
                  });
    EXPECT_EQ(names.size(), parts);
    EXPECT_EQ(names.count("lm_head.weight"), tied ? 0U : 1U);
    EXPECT_EQ(names.count("model.layers.2.self_attn.v_proj.weight"), 1U);
  }
}

TEST(Model, MaterializedWeightsAreTheInitialValuesOfTheirParts) {
  const auto model = built(small(false));
  for_each_part(*model, [](const Parameter& parameter, const Parameter::Part& part) {
    if (parameter.parts().size() != 1) return;
    std::vector<float> expected(static_cast<std::size_t>(part.numel()));
    fill_initial(part, parameter.init(), 3, 0, part.numel(), expected.data());
    const at::Tensor values = parameter.value.detach().flatten();
    EXPECT_TRUE(at::equal(values, at::from_blob(expected.data(), values.sizes(), at::kFloat))) << part.name;
  });
}

TEST(Model, LossOfOneMoreTokenIsTheCrossEntropyOfTheNextTokensLogits) {
  const at::NoGradGuard no_grad;
  for (const bool tied : {false, true}) {
    const auto model = built(small(tied));
    at::manual_seed(2);
    const at::Tensor ids = at::randint(0, 61, {2, 20}, at::kLong);
    const at::Tensor shorter = ids.narrow(1, 0, 19).contiguous();
    const at::Tensor difference =
        model->loss(language_batch(ids), 0) - model->loss(language_batch(shorter), 0);
    const at::Tensor logits = model->decoder(prompts_of(shorter))->start();
    EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{2, 61}));
    const at::Tensor expected = at::cross_entropy_loss(logits, ids.select(1, 19), {}, at::Reduction::Sum);
    EXPECT_NEAR(difference.item<double>(), expected.item<double>(), 1e-3);
  }
}

TEST(Model, UntrainedModelIsAsGoodAsGuessing) {
  const at::NoGradGuard no_grad;
  ModelOptions options = small(false);
  options.init_std = 0.001;
  const auto model = built(options);
  const at::Tensor ids = at::randint(0, 61, {4, 33}, at::kLong);
  EXPECT_NEAR(model->loss(language_batch(ids), 0).item<double>() / (4 * 32), std::log(61.0), 0.01);
}

TEST(Model, LossIsTheSameWithAndWithoutGradients) {
  const auto model = built(small(true));
  const at::Tensor ids = at::randint(0, 61, {2, 20}, at::kLong);
  const double training = model->loss(language_batch(ids), 1.0).item<double>();
  const at::NoGradGuard no_grad;
  EXPECT_EQ(model->loss(language_batch(ids), 0).item<double>(), training);
}

TEST(Model, GradientScaleMultipliesEveryGradient) {
  const auto model = built(small(true));
  const at::Tensor ids = at::randint(0, 61, {2, 20}, at::kLong);
  std::vector<at::Tensor> gradients;
  for (const double scale : {1.0, 0.25}) {
    model->loss(language_batch(ids), scale).backward();
    std::size_t index = 0;
    for_each_part(*model, [&](const Parameter& parameter, const Parameter::Part& part) {
      if (&part != &parameter.parts().front()) return;
      at::Tensor& leaf = parameter.value.mutable_grad();
      if (scale == 1.0) {
        gradients.push_back(leaf);
      } else {
        EXPECT_LT(test::relative_error(leaf * 4.0, gradients[index++]), 1e-6) << part.name;
      }
      leaf = at::Tensor();
    });
  }
}

TEST(Model, HuggingFaceConfigStatesTheArchitecture) {
  ModelOptions options = small(true);
  options.rope_theta = 5e5;
  const auto config =
      nlohmann::json::parse(build_model(options, at::kFloat, at::kCPU)->hugging_face_config());
  EXPECT_EQ(config["architectures"][0], "LlamaForCausalLM");
  EXPECT_EQ(config["num_key_value_heads"], 2);
  EXPECT_EQ(config["head_dim"], 6);
  EXPECT_EQ(config["rope_theta"], 5e5);
  EXPECT_EQ(config["tie_word_embeddings"], true);
}

TEST(Model, FlopsCountMatricesSixTimesAndAttention) {
  // 2 * 3 (forward, and two products backward) per weight of a matrix, the head's also when tied; norms are
  // noise.
  const double block = 24 * 24 * 2 + 2 * 12 * 24 + 3 * 24 * 40;
  const double expected = 6 * (3 * block + 61 * 24) + 12.0 * 3 * 24 * 16;
  for (const bool tied : {false, true}) {
    EXPECT_NEAR(build_model(small(tied), at::kFloat, at::kCPU)->flops_per_sample({16, 0}).all(),
                16 * expected, 0.02 * 16 * expected);
  }
}

}  // namespace
}  // namespace echelon
