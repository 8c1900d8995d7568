#include "model/t5/t5.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "model/t5/t5_positions.h"
#include "support/unsharded.h"
#include "unit/model/tensors.h"

namespace echelon {
namespace {

using test::built;
using test::language_batch;
using test::take_gradients;

ModelOptions small(bool gated) {
  return {.kind = ModelKind::kT5,
          .vocab_size = 61,
          .hidden_size = 24,
          .intermediate_size = 40,
          .layers = 2,
          .heads = 4,
          .norm_eps = 1e-6,
          .tie_embeddings = !gated,
          .decoder_layers = 3,
          .head_size = 5,
          .feed_forward = gated ? FeedForward::kGatedGelu : FeedForward::kRelu};
}

Batch pairs(const std::vector<std::int64_t>& sources, const std::vector<std::int64_t>& targets) {
  Batch batch{.samples = static_cast<std::int64_t>(sources.size()), .first_sample = 40};
  batch.sequences = batch.by_sample = make_sequences(sources);
  batch.target_sequences = make_sequences(targets);
  at::manual_seed(5);
  batch.ids = at::randint(2, 61, {batch.sequences->tokens()}, at::kLong);
  batch.targets = at::randint(2, 61, {batch.target_sequences->tokens()}, at::kLong);
  return batch;
}

/// Sample `index` of a batch as a batch of its own.
Batch alone(const Batch& batch, std::int64_t index) {
  Batch one{.samples = 1, .first_sample = batch.first_sample + index};
  one.ids = batch.ids.narrow(0, batch.sequences->begin(index), batch.sequences->length(index));
  one.sequences = one.by_sample = make_sequences({batch.sequences->length(index)});
  const SequenceLayout& targets = *batch.target_sequences;
  one.targets = batch.targets.narrow(0, targets.begin(index), targets.length(index));
  one.target_sequences = make_sequences({targets.length(index)});
  one.training = batch.training;
  one.dropout_key = batch.dropout_key;
  return one;
}

class T5Model : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Versions, T5Model, ::testing::Values(false, true),
                         [](const auto& gated) { return std::string(gated.param ? "v1_1" : "v1_0"); });

TEST_P(T5Model, SamplesOfABatchDoNotSeeEachOther) {
  ModelOptions options = small(GetParam());
  options.dropout = 0.2;
  const auto model = built(options);
  for (const bool training : {false, true}) {
    Batch batch = pairs({7, 1, 150, 30}, {3, 20, 1, 131});
    batch.training = training;
    batch.dropout_key = 9;
    const double together = model->loss(batch, 0.5).item<double>();
    model->loss(batch, 0.5).backward();
    const std::vector<at::Tensor> expected = take_gradients(*model);
    double sum = 0;
    for (std::int64_t i = 0; i < batch.samples; ++i) {
      const at::Tensor loss = model->loss(alone(batch, i), 0.5);
      loss.backward();
      sum += loss.item<double>();
    }
    EXPECT_NEAR(sum, together, 1e-5 * together);
    const std::vector<at::Tensor> gradients = take_gradients(*model);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_LT(test::relative_error(gradients[i], expected[i]), 2e-5)
          << model->parameters()[i]->parts().front().name;
    }
  }
}

TEST_P(T5Model, DropoutChangesATrainingPassOnlyAndTheSameWayEachTime) {
  ModelOptions options = small(GetParam());
  const Batch still = pairs({9, 30}, {12, 4});
  Batch training = still;
  training.training = true;
  training.dropout_key = 7;
  const at::NoGradGuard no_grad;
  const double without = built(options)->loss(training, 0).item<double>();
  options.dropout = 0.3;
  const auto model = built(options);
  EXPECT_EQ(model->loss(still, 0).item<double>(), without);
  const double dropped = model->loss(training, 0).item<double>();
  EXPECT_GT(std::abs(dropped - without), 1e-3 * without);
  EXPECT_EQ(model->loss(training, 0).item<double>(), dropped);
  training.dropout_key = 8;
  EXPECT_NE(model->loss(training, 0).item<double>(), dropped);
}

TEST_P(T5Model, TargetsThatDoNotCountArePaddingToTheOnesAfterThem) {
  const auto model = built(small(GetParam()));
  const at::NoGradGuard no_grad;
  Batch batch = pairs({20}, {6});
  batch.targets[2] = -1;
  const double left_out = model->loss(batch, 0).item<double>();
  batch.targets[2] = 0;
  const double as_padding = model->loss(batch, 0).item<double>();
  batch.targets.narrow(0, 3, 3).fill_(-1);
  const double before = model->loss(batch, 0).item<double>();
  batch.targets[2] = -1;
  EXPECT_NEAR(as_padding - left_out, before - model->loss(batch, 0).item<double>(), 1e-3);
}

TEST_P(T5Model, NextTokenIsTheFirstOfTheTarget) {
  const auto model = built(small(GetParam()));
  const at::NoGradGuard no_grad;
  const Batch batch = pairs({20, 20}, {1, 1});
  const at::Tensor logits = model->decoder(batch)->start();
  const at::Tensor expected = at::cross_entropy_loss(logits, batch.targets, {}, at::Reduction::Sum);
  EXPECT_NEAR(model->loss(batch, 0).item<double>(), expected.item<double>(), 1e-4);
}

TEST_P(T5Model, StepsOfItsDecoderGiveTheLossOfTheTargets) {
  const auto model = built(small(GetParam()));
  const at::NoGradGuard no_grad;
  const Batch batch = pairs({20, 3, 11}, {9, 14, 1});
  const auto decoder = model->decoder(batch);
  at::Tensor logits = decoder->start();
  double loss = 0;
  for (std::int64_t place = 0; place < 14; ++place) {
    std::vector<std::int64_t> next;
    for (std::int64_t s = 0; s < 3; ++s) {
      const bool inside = place < batch.target_sequences->length(s);
      next.push_back(inside ? batch.targets[batch.target_sequences->begin(s) + place].item<std::int64_t>()
                            : 0);
      if (inside) loss -= at::log_softmax(logits[s], 0)[next.back()].item<double>();
    }
    logits = decoder->step(at::tensor(next, at::kLong));
  }
  EXPECT_NEAR(loss, model->loss(batch, 0).item<double>(), 1e-3);
}

TEST_P(T5Model, RowsOfItsDecoderCanBeReordered) {
  const auto model = built(small(GetParam()));
  const at::NoGradGuard no_grad;
  const Batch batch = pairs({20, 3, 11}, {1, 1, 1});
  const auto decoder = model->decoder(batch);
  const auto straight = model->decoder(batch);
  (void)decoder->start();
  (void)straight->start();
  decoder->reorder(at::tensor({2, 0, 0, 1}, at::kLong));
  (void)decoder->step(at::tensor({5, 3, 9, 4}, at::kLong));
  (void)straight->step(at::tensor({9, 4, 5}, at::kLong));
  decoder->reorder(at::tensor({2, 3, 0}, at::kLong));
  const at::Tensor next = at::tensor({1, 2, 3}, at::kLong);
  EXPECT_LT(test::relative_error(decoder->step(next), straight->step(next)), 1e-5);
}

TEST(T5, InitialWeightsHaveTheDeviationsOfTransformers) {
  ModelOptions options = small(false);
  options.hidden_size = 64;
  options.intermediate_size = 256;
  const auto model = built(options);
  const std::map<std::string, double> deviations{
      {"shared.weight", 1.0},
      {"encoder.block.1.layer.0.SelfAttention.q.weight", 1.0 / std::sqrt(64.0 * 5.0)},
      {"encoder.block.1.layer.0.SelfAttention.v.weight", 0.125},
      {"decoder.block.0.layer.1.EncDecAttention.q.weight", 1.0 / std::sqrt(64.0 * 5.0)},
      {"decoder.block.2.layer.1.EncDecAttention.o.weight", 1.0 / std::sqrt(20.0)},
      {"decoder.block.2.layer.2.DenseReluDense.wi.weight", 0.125},
      {"decoder.block.2.layer.2.DenseReluDense.wo.weight", 1.0 / 16.0},
      {"decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 0.125}};
  std::size_t found = 0;
  for (const Parameter* parameter : model->parameters()) {
    at::Tensor rest = parameter->value.detach().flatten();
    for (const Parameter::Part& part : parameter->parts()) {
      const auto expected = deviations.find(part.name);
      const at::Tensor values = rest.narrow(0, 0, part.numel());
      rest = rest.narrow(0, part.numel(), rest.numel() - part.numel());
      if (expected == deviations.end()) continue;
      ++found;
      EXPECT_NEAR(values.std().item<double>() / expected->second, 1.0,
                  5.0 / std::sqrt(2.0 * static_cast<double>(part.numel())))
          << part.name;
    }
  }
  EXPECT_EQ(found, deviations.size());
}

TEST(T5, DistancesFallIntoTheBucketsOfThePaper) {
  const at::Tensor both = bucket_of_distance({32, 128, true}, 201, at::kCPU);
  const auto bucket = [](const at::Tensor& of, std::int64_t distance) {
    return of[distance + 200].item<std::int64_t>();
  };
  // 16 buckets a direction, 8 of one distance each, the last from 128 * (8 / 128)^(1 / 8) = 91 on.
  for (const auto& [distance, expected] : std::map<std::int64_t, std::int64_t>{
           {0, 0}, {7, 7}, {8, 8}, {11, 8}, {12, 9}, {90, 14}, {91, 15}, {200, 15}}) {
    EXPECT_EQ(bucket(both, -distance), expected) << distance;
    if (distance > 0) {
      EXPECT_EQ(bucket(both, distance), expected + 16) << distance;
    }
  }
  const at::Tensor back = bucket_of_distance({32, 128, false}, 201, at::kCPU);
  for (const auto& [distance, expected] : std::map<std::int64_t, std::int64_t>{
           {0, 0}, {15, 15}, {16, 16}, {18, 16}, {19, 17}, {112, 30}, {113, 31}, {200, 31}}) {
    EXPECT_EQ(bucket(back, -distance), expected) << distance;
    EXPECT_EQ(bucket(back, distance), 0) << "a key behind the query: " << distance;
  }
}

TEST(T5, FlopsCountEachTokenWhereItIsMultiplied) {
  const auto model = build_model(small(false), at::kFloat, at::kCPU);
  const double encoder = 4 * 24 * 20 + 2 * 24 * 40;
  const double decoder_of_target = 6 * 24 * 20 + 2 * 24 * 40;
  const double decoder_of_source = 2 * 24 * 20;
  const double weights = 100 * (2 * encoder + 3 * decoder_of_source) + 7 * (3 * decoder_of_target + 61 * 24);
  const double pairs = 2 * 100 * 100 + 3 * (7 * 7 + 7 * 100);
  const SampleFlops flops = model->flops_per_sample({100, 7});
  EXPECT_NEAR(flops.matrices, 6 * weights, 1.0);
  EXPECT_NEAR(flops.attention, 12 * 20 * pairs, 1.0);
}

TEST(T5, ABatchWithoutTargetSequencesIsRefused) {
  const auto model = built(small(false));
  EXPECT_THROW((void)model->loss(language_batch(at::randint(2, 61, {2, 20}, at::kLong)), 0), Error);
}

}  // namespace
}  // namespace echelon
