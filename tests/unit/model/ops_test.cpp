#include "model/ops/ops.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "unit/model/tensors.h"

namespace echelon::ops {
namespace {

using test::relative_error;

struct Way {
  at::ScalarType type;
  bool sink;
};

/// Each operation in both precisions, its weight gradient once through a sink and once through autograd.
class Ops : public ::testing::TestWithParam<Way> {
 protected:
  Ops() { at::manual_seed(1); }
  [[nodiscard]] double tolerance() const { return GetParam().type == at::kFloat ? 3e-6 : 1.5e-2; }
  [[nodiscard]] at::Tensor random(at::IntArrayRef shape) const {
    return at::randn(shape).to(GetParam().type);
  }
  [[nodiscard]] at::Tensor leaf(at::IntArrayRef shape) const { return random(shape).requires_grad_(true); }
  [[nodiscard]] static at::Tensor exact(const at::Tensor& leaf) {
    return leaf.detach().to(at::kDouble).requires_grad_(true);
  }
  Parameter& weight(const std::vector<std::int64_t>& shape) {
    weight_ = std::make_unique<Parameter>("w", shape, InitSpec{});
    weight_->value = leaf(shape);
    if (GetParam().sink) weight_->sink = &sink_;
    return *weight_;
  }
  [[nodiscard]] at::Tensor weight_gradient() const {
    return GetParam().sink ? weight_->gradient : weight_->value.grad();
  }
  void expect_near(const at::Tensor& actual, const at::Tensor& expected, const char* what) const {
    EXPECT_LT(relative_error(actual, expected), tolerance()) << what;
  }

 private:
  test::MemorySink sink_;
  std::unique_ptr<Parameter> weight_;
};

INSTANTIATE_TEST_SUITE_P(Ways, Ops,
                         ::testing::Values(Way{at::kFloat, true}, Way{at::kFloat, false},
                                           Way{at::kBFloat16, true}, Way{at::kBFloat16, false}),
                         [](const auto& way) {
                           return std::string(way.param.type == at::kFloat ? "fp32" : "bf16") +
                                  (way.param.sink ? "ToSink" : "ToAutograd");
                         });

TEST_P(Ops, LinearMatchesAtenAndAddsUpOverTwoPasses) {
  Parameter& w = weight({13, 7});
  const at::Tensor w64 = exact(w.value);
  for (int pass = 0; pass < 2; ++pass) {
    const at::Tensor x = leaf({29, 7});
    const at::Tensor x64 = exact(x);
    const at::Tensor dy = random({29, 13});
    const at::Tensor y = linear(x, w);
    const at::Tensor y64 = at::linear(x64, w64);
    y.backward(dy);
    y64.backward(dy.to(at::kDouble));
    expect_near(y, y64, "output");
    expect_near(x.grad(), x64.grad(), "input gradient");
    expect_near(weight_gradient(), w64.grad(), "weight gradient");
  }
}

TEST_P(Ops, RmsNormMatchesAtenAndAddsUpOverTwoPasses) {
  for (const std::int64_t rows : {1, 7, 100}) {
    Parameter& w = weight({33});
    const at::Tensor w64 = exact(w.value);
    for (int pass = 0; pass < 2; ++pass) {
      const at::Tensor x = leaf({rows, 33});
      const at::Tensor x64 = exact(x);
      const at::Tensor dy = random({rows, 33});
      const at::Tensor y = rms_norm(x, w, 1e-3);
      const at::Tensor y64 = x64 * at::rsqrt(x64.square().mean(1, true) + 1e-3) * w64;
      y.backward(dy);
      y64.backward(dy.to(at::kDouble));
      expect_near(y, y64, "output");
      expect_near(x.grad(), x64.grad(), "input gradient");
      expect_near(weight_gradient(), w64.grad(), "weight gradient");
    }
  }
}

TEST_P(Ops, SwigluMatchesAten) {
  const at::Tensor x = leaf({11, 2 * 19});
  const at::Tensor x64 = exact(x);
  const at::Tensor dy = random({11, 19});
  const at::Tensor y = swiglu(x);
  const auto halves = x64.chunk(2, 1);
  const at::Tensor y64 = at::silu(halves[0]) * halves[1];
  y.backward(dy);
  y64.backward(dy.to(at::kDouble));
  expect_near(y, y64, "output");
  expect_near(x.grad(), x64.grad(), "input gradient");
}

/// Attention from its definition, in double precision.
at::Tensor plain_attention(const at::Tensor& qkv, const at::Tensor& cos_sin, const kernels::QkvShape& s) {
  const std::int64_t batch = qkv.size(0) / s.seq_len;
  const auto parts = qkv.view({batch, s.seq_len, s.heads + 2 * s.kv_heads, s.head_dim})
                         .transpose(1, 2)
                         .split_with_sizes({s.heads, s.kv_heads, s.kv_heads}, 1);
  const auto table = cos_sin.narrow(0, 0, s.seq_len).to(at::kDouble).chunk(2, 1);
  const auto rotate = [&](const at::Tensor& x) {
    const auto halves = x.chunk(2, 3);
    return at::cat({halves[0] * table[0] - halves[1] * table[1], halves[1] * table[0] + halves[0] * table[1]},
                   3);
  };
  const std::int64_t group = s.heads / s.kv_heads;
  const at::Tensor k = rotate(parts[1]).repeat_interleave(group, 1);
  const at::Tensor v = parts[2].repeat_interleave(group, 1);
  const at::Tensor future = at::ones({s.seq_len, s.seq_len}, at::kBool).triu(1);
  const at::Tensor scores =
      (at::matmul(rotate(parts[0]), k.transpose(2, 3)) / std::sqrt(static_cast<double>(s.head_dim)))
          .masked_fill(future, -INFINITY);
  return at::matmul(scores.softmax(3), v).transpose(1, 2).reshape({batch * s.seq_len, s.heads * s.head_dim});
}

TEST_P(Ops, CausalAttentionMatchesItsDefinition) {
  if (!GetParam().sink) return;  // no weights: one way is all
  const kernels::QkvShape shapes[] = {{1, 2, 1, 4},   {5, 4, 4, 6},   {37, 6, 3, 10}, {127, 4, 1, 8},
                                      {128, 2, 2, 8}, {129, 2, 1, 8}, {300, 3, 1, 14}};
  for (const kernels::QkvShape& s : shapes) {
    const std::int64_t width = (s.heads + 2 * s.kv_heads) * s.head_dim;
    const at::Tensor angle = at::rand({s.seq_len + 3, s.head_dim / 2}) * 6.28;
    const at::Tensor cos_sin = at::cat({angle.cos(), angle.sin()}, 1).contiguous();
    const at::Tensor qkv = leaf({2 * s.seq_len, width});
    const at::Tensor qkv64 = exact(qkv);
    const at::Tensor dy = random({2 * s.seq_len, s.heads * s.head_dim});
    const at::Tensor y = causal_attention(qkv, cos_sin, s);
    const at::Tensor y64 = plain_attention(qkv64, cos_sin, s);
    y.backward(dy);
    y64.backward(dy.to(at::kDouble));
    SCOPED_TRACE(s.seq_len);
    expect_near(y, y64, "output");
    expect_near(qkv.grad(), qkv64.grad(), "input gradient");
  }
}

TEST_P(Ops, AttentionNeverLooksAhead) {
  const kernels::QkvShape s{200, 2, 1, 8};
  const at::Tensor cos_sin = at::cat({at::ones({200, 4}), at::zeros({200, 4})}, 1).contiguous();
  const at::Tensor qkv = random({200, 4 * 8});
  at::Tensor changed = qkv.clone();
  changed.narrow(0, 150, 50).fill_(100.0);
  const at::Tensor y = causal_attention(qkv, cos_sin, s);
  const at::Tensor y_changed = causal_attention(changed, cos_sin, s);
  EXPECT_TRUE(at::equal(y.narrow(0, 0, 150), y_changed.narrow(0, 0, 150)));
  EXPECT_FALSE(at::equal(y.narrow(0, 150, 50), y_changed.narrow(0, 150, 50)));
}

TEST_P(Ops, EmbeddingMatchesAtenAndAddsUpOverTwoPasses) {
  Parameter& w = weight({10, 21});
  const at::Tensor w64 = exact(w.value);
  for (int pass = 0; pass < 2; ++pass) {
    const at::Tensor ids = at::randint(0, 9, {50}, at::kLong);  // 9 is never used
    const at::Tensor dy = random({50, 21});
    const at::Tensor y = embedding(ids, w);
    EXPECT_TRUE(at::equal(y, w.value.index_select(0, ids)));
    y.backward(dy);
    w64.index_select(0, ids).backward(dy.to(at::kDouble));
    expect_near(weight_gradient(), w64.grad(), "weight gradient");
    EXPECT_EQ(weight_gradient()[9].abs().max().item<double>(), 0.0);
  }
}

TEST_P(Ops, FrequentTokensKeepTheirWholeGradient) {
  Parameter& w = weight({3, 4});
  const at::Tensor ids = at::ones({2048}, at::kLong);
  embedding(ids, w).backward(at::ones({2048, 4}, GetParam().type));
  EXPECT_EQ(weight_gradient()[1][2].item<double>(), 2048.0);  // adding ones in bf16 stops at 256
}

TEST_P(Ops, LinearCrossEntropyMatchesAten) {
  Parameter& w = weight({31, 9});
  const at::Tensor w64 = exact(w.value);
  for (int pass = 0; pass < 2; ++pass) {
    const at::Tensor x = leaf({23, 9});
    const at::Tensor x64 = exact(x);
    at::Tensor targets = at::randint(0, 31, {23}, at::kLong);
    targets[4] = -100;
    targets[11] = -100;
    const at::Tensor loss = linear_cross_entropy(x, w, targets, 0.125);
    const at::Tensor loss64 = at::cross_entropy_loss(at::linear(x64, w64), targets, {}, at::Reduction::Sum);
    loss.backward();
    (loss64 * 0.125).backward();
    EXPECT_EQ(loss.scalar_type(), at::kFloat);
    expect_near(loss, loss64, "loss");
    expect_near(x.grad(), x64.grad(), "input gradient");
    expect_near(weight_gradient(), w64.grad(), "weight gradient");
    EXPECT_EQ(x.grad()[4].abs().max().item<double>(), 0.0);
    const at::NoGradGuard no_grad;
    expect_near(linear_cross_entropy(x, w, targets, 0.0), loss64, "loss without gradients");
  }
}

TEST_P(Ops, LinearCrossEntropyOfManyChunksMatchesAten) {
  // Logits of one chunk take 128 MiB: 440 tokens in fp32 and 880 in bf16 of this vocabulary.
  if (GetParam().sink == (GetParam().type == at::kFloat)) return;  // two of the four ways
  const std::int64_t vocab = 76'000;
  const std::int64_t tokens = GetParam().type == at::kFloat ? 500 : 900;
  Parameter& w = weight({vocab, 3});
  const at::Tensor x = leaf({tokens, 3});
  const at::Tensor targets = at::randint(0, vocab, {tokens}, at::kLong);
  const at::Tensor x32 = x.detach().to(at::kFloat).requires_grad_(true);
  const at::Tensor w32 = w.value.detach().to(at::kFloat).requires_grad_(true);
  const at::Tensor loss = linear_cross_entropy(x, w, targets, 1.0);
  const at::Tensor loss32 = at::cross_entropy_loss(at::linear(x32, w32), targets, {}, at::Reduction::Sum);
  loss.backward();
  loss32.backward();
  expect_near(loss, loss32, "loss");
  expect_near(x.grad(), x32.grad(), "input gradient");
  expect_near(weight_gradient(), w32.grad(), "weight gradient");
}

TEST(LinearCrossEntropy, RefusesAFactorOnItsResult) {
  Parameter w("w", {5, 3}, InitSpec{});
  w.value = at::randn({5, 3}).requires_grad_(true);
  const at::Tensor x = at::randn({2, 3}).requires_grad_(true);
  const at::Tensor loss = linear_cross_entropy(x, w, at::zeros({2}, at::kLong), 1.0);
  EXPECT_THROW((loss * 2.0).backward(), Error);
}

TEST(LinearCrossEntropy, OfNotANumberIsNotANumber) {
  Parameter w("w", {5, 3}, InitSpec{});
  w.value = at::randn({5, 3});
  at::Tensor x = at::randn({2, 3});
  x[1][0] = NAN;
  EXPECT_TRUE(std::isnan(linear_cross_entropy(x, w, at::zeros({2}, at::kLong), 1.0).item<double>()));
}

TEST(Operations, RefuseOtherPrecisions) {
  EXPECT_THROW((void)swiglu(at::ones({2, 4}, at::kDouble)), Error);
}

}  // namespace
}  // namespace echelon::ops
