#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "model/ops/ops.h"

namespace echelon::ops {
namespace {

Batch batch_of(std::int64_t first_sample, std::vector<std::int64_t> lengths) {
  Batch batch;
  batch.training = true;
  batch.dropout_key = 11;
  batch.first_sample = first_sample;
  batch.samples = static_cast<std::int64_t>(lengths.size());
  batch.by_sample = make_sequences(std::move(lengths));
  return batch;
}

TEST(Dropout, ZeroesItsShareAndKeepsTheMean) {
  const at::Tensor x = at::ones({1000, 100});
  for (const double p : {0.1, 0.25, 0.5}) {
    const at::Tensor y = dropout(x, p, batch_of(0, std::vector<std::int64_t>(10, 100)), "here");
    EXPECT_NEAR((y == 0).to(at::kFloat).mean().item<double>(), p, 0.005);
    EXPECT_NEAR(y.mean().item<double>(), 1.0, 0.01);
    EXPECT_EQ((y != 0).sum().item<std::int64_t>(),
              (y - 1.0 / (1.0 - p)).abs().lt(1e-4).sum().item<std::int64_t>());
  }
}

TEST(Dropout, DependsOnTheSampleAndNotOnTheBatchItIsIn) {
  const at::Tensor x = at::rand({7 + 5 + 9, 13});
  const at::Tensor together = dropout(x, 0.5, batch_of(40, {7, 5, 9}), "here");
  const at::Tensor last = dropout(x.narrow(0, 12, 9), 0.5, batch_of(42, {9}), "here");
  EXPECT_TRUE(at::equal(together.narrow(0, 12, 9), last));
  EXPECT_FALSE(at::equal(dropout(x.narrow(0, 12, 9), 0.5, batch_of(43, {9}), "here"), last));
  EXPECT_FALSE(at::equal(dropout(x.narrow(0, 12, 9), 0.5, batch_of(42, {9}), "there"), last));
}

TEST(Dropout, OfImagesTakesASampleARow) {
  Batch batch = batch_of(5, {1});
  batch.by_sample = nullptr;
  const at::Tensor x = at::ones({4, 3, 6, 6});
  const at::Tensor whole = dropout(x, 0.5, batch, "here");
  batch.first_sample = 7;
  EXPECT_TRUE(at::equal(whole.narrow(0, 2, 2), dropout(x.narrow(0, 2, 2), 0.5, batch, "here")));
  EXPECT_FALSE(at::equal(whole[0], whole[1]));
}

TEST(Dropout, IsNothingOutsideOfTraining) {
  Batch batch = batch_of(0, {4});
  const at::Tensor x = at::rand({4, 10});
  EXPECT_TRUE(at::equal(dropout(x, 0.0, batch, "here"), x));
  batch.training = false;
  EXPECT_TRUE(at::equal(dropout(x, 0.5, batch, "here"), x));
}

TEST(Dropout, LetsGradientsThroughWhereItLeftElements) {
  const at::Tensor x = at::rand({6, 10}).requires_grad_(true);
  const at::Tensor y = dropout(x, 0.5, batch_of(3, {2, 4}), "here");
  y.sum().backward();
  EXPECT_LT((x.grad() * x - y).abs().max().item<double>(), 1e-6);
}

TEST(Dropout, AfterReluIsTheSameInOnePass) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const bool training : {true, false}) {
      Batch batch = batch_of(3, {7, 5});
      batch.training = training;
      const at::Tensor x = at::randn({12, 300}).to(type).requires_grad_(true);
      const at::Tensor again = x.detach().clone().requires_grad_(true);
      const at::Tensor dy = at::randn({12, 300}).to(type);
      const at::Tensor y = relu_dropout(x, 0.25, batch, "here");
      const at::Tensor expected = dropout(at::relu(again), 0.25, batch, "here");
      y.backward(dy);
      expected.backward(dy);
      EXPECT_TRUE(at::equal(y, expected));
      EXPECT_TRUE(at::equal(x.grad(), again.grad()));
      EXPECT_EQ(at::equal(y, at::relu(x)), !training);
    }
  }
}

}  // namespace
}  // namespace echelon::ops
