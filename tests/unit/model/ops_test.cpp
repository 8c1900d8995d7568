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
  /// Makes such tensors, times `scale` and around `mean`.
  [[nodiscard]] std::function<at::Tensor()> inputs(std::vector<std::int64_t> shape, double scale = 1,
                                                   double mean = 0) const {
    return [this, shape = std::move(shape), scale, mean] { return random(shape) * scale + mean; };
  }
  [[nodiscard]] at::Tensor leaf(at::IntArrayRef shape) const { return random(shape).requires_grad_(true); }
  [[nodiscard]] static at::Tensor exact(const at::Tensor& leaf) {
    return leaf.detach().to(at::kDouble).requires_grad_(true);
  }
  Parameter& weight(const std::vector<std::int64_t>& shape) { return made(weight_, shape); }
  Parameter& bias(const std::vector<std::int64_t>& shape) { return made(bias_, shape); }
  [[nodiscard]] at::Tensor gradient_of(const Parameter& parameter) const {
    return GetParam().sink ? parameter.gradient : parameter.value.grad();
  }
  [[nodiscard]] at::Tensor weight_gradient() const { return gradient_of(*weight_); }
  void expect_near(const at::Tensor& actual, const at::Tensor& expected, const char* what) const {
    EXPECT_LT(relative_error(actual, expected), tolerance()) << what;
  }
  /// Goes back through `y` and through `y64`, which is the same of doubles, and compares them.
  void go_back(const at::Tensor& y, const at::Tensor& y64, const at::Tensor& x, const at::Tensor& x64) const {
    const at::Tensor dy = random(y.sizes());
    y.backward(dy);
    y64.backward(dy.to(at::kDouble));
    expect_near(y, y64, "output");
    expect_near(x.grad(), x64.grad(), "input gradient");
  }
  using Plain = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b)>;
  /// Compares an operation with `plain` on doubles; the gradients of parameters add up over two passes.
  void compare(const std::function<at::Tensor()>& input,
               const std::function<at::Tensor(const at::Tensor& x)>& operation, const Plain& plain) const {
    const at::Tensor w64 = weight_ ? exact(weight_->value) : at::Tensor();
    const at::Tensor b64 = bias_ ? exact(bias_->value) : at::Tensor();
    for (int pass = 0; pass < 2; ++pass) {
      const at::Tensor x = input().requires_grad_(true);
      const at::Tensor x64 = exact(x);
      go_back(operation(x), plain(x64, w64, b64), x, x64);
      if (weight_) expect_near(weight_gradient(), w64.grad(), "weight gradient");
      if (bias_) expect_near(gradient_of(*bias_), b64.grad(), "bias gradient");
    }
  }

 private:
  Parameter& made(std::unique_ptr<Parameter>& parameter, const std::vector<std::int64_t>& shape) {
    parameter = std::make_unique<Parameter>("w", shape, InitSpec{});
    parameter->value = leaf(shape);
    if (GetParam().sink) parameter->sink = &sink_;
    return *parameter;
  }
  test::MemorySink sink_;
  std::unique_ptr<Parameter> weight_;
  std::unique_ptr<Parameter> bias_;
};

INSTANTIATE_TEST_SUITE_P(Ways, Ops,
                         ::testing::Values(Way{at::kFloat, true}, Way{at::kFloat, false},
                                           Way{at::kBFloat16, true}, Way{at::kBFloat16, false}),
                         [](const auto& way) {
                           return std::string(way.param.type == at::kFloat ? "fp32" : "bf16") +
                                  (way.param.sink ? "ToSink" : "ToAutograd");
                         });

TEST_P(Ops, LinearMatchesAtenAndAddsUpOverTwoPasses) {
  for (const bool biased : {false, true}) {
    Parameter& w = weight({13, 7});
    Parameter* b = biased ? &bias({13}) : nullptr;
    compare(
        inputs({29, 7}), [&](const auto& x) { return linear(x, w, {}, b); },
        [](const auto& x, const auto& w64, const auto& b64) { return at::linear(x, w64, b64); });
  }
}

TEST_P(Ops, LayerNormMatchesAtenAndAddsUpOverTwoPasses) {
  for (const std::int64_t rows : {1, 7, 100}) {
    Parameter& w = weight({33});
    Parameter& b = bias({33});
    compare(
        inputs({rows, 33}, 1, 5),  // a mean that must be taken off
        [&](const auto& x) { return layer_norm(x, w, b, 1e-5); },
        [](const auto& x, const auto& w64, const auto& b64) {
          return at::layer_norm(x, {33}, w64, b64, 1e-5);
        });
  }
}

TEST_P(Ops, BiasGeluMatchesAtenAndAddsUpOverTwoPasses) {
  for (const std::int64_t rows : {1, 7, 100}) {
    Parameter& b = bias({33});
    compare(
        inputs({rows, 33}, 3), [&](const auto& x) { return bias_gelu(x, b); },
        [](const auto& x, const auto&, const auto& b64) { return at::gelu(x + b64, "tanh"); });
  }
}

TEST_P(Ops, RmsNormMatchesAtenAndAddsUpOverTwoPasses) {
  for (const std::int64_t rows : {1, 7, 100}) {
    for (const NormRounding rounding : {NormRounding::kTwice, NormRounding::kOncePlusOne}) {
      Parameter& w = weight({33});
      compare(
          inputs({rows, 33}), [&](const auto& x) { return rms_norm(x, w, 1e-3, rounding); },
          [&](const auto& x, const auto& w64, const auto&) {
            const double more = rounding == NormRounding::kOncePlusOne ? 1 : 0;
            return x * at::rsqrt(x.square().mean(1, true) + 1e-3) * (w64 + more);
          });
    }
  }
}

/// Share of the elements that differ.
double unequal(const at::Tensor& a, const at::Tensor& b) {
  return a.ne(b).to(at::kDouble).mean().item<double>();
}

TEST(RmsNorm, RoundsTwiceAsLlamaOrOnceAsPyTorchAndGemmas) {
  constexpr double kEps = 1e-5;
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    at::manual_seed(1);
    const at::Tensor x = at::randn({40, 1001}).to(type);
    const at::Tensor dy = at::randn({40, 1001}).to(type);
    Parameter w("w", {1001}, InitSpec{});
    w.value = at::randn({1001}).to(type).requires_grad_(true);
    const at::Tensor wide = x.to(at::kFloat);
    const at::Tensor normed = wide * at::rsqrt(wide.square().mean(1, true) + kEps);
    const auto gradient = [&](const at::Tensor& seen) {
      return (dy.to(at::kDouble) * seen.to(at::kDouble)).sum(0);
    };
    const at::Tensor twice = normed.to(type) * w.value.detach();
    const at::Tensor once = (normed * w.value.detach().to(at::kFloat)).to(type);
    const at::Tensor more = (normed * (w.value.detach().to(at::kFloat) + 1)).to(type);
    ASSERT_GT(unequal(twice, once), 0.1);
    for (const NormRounding rounding :
         {NormRounding::kTwice, NormRounding::kOnce, NormRounding::kOncePlusOne}) {
      const bool is_twice = rounding == NormRounding::kTwice;
      const at::Tensor y = rms_norm(x, w, kEps, rounding);
      // The last bit of 1 / rms may fall the other way than ATen's.
      EXPECT_LT(unequal(y, is_twice ? twice : rounding == NormRounding::kOnce ? once : more), 1e-3);
      w.value.mutable_grad() = at::Tensor();
      y.backward(dy);
      const at::Tensor expected = gradient(is_twice ? normed.to(type) : normed);
      EXPECT_LT(relative_error(w.value.grad().to(at::kFloat), expected), type == at::kHalf ? 4e-4 : 3e-3);
    }
  }
}

TEST_P(Ops, AddRmsNormMatchesAtenThroughBothResults) {
  Parameter& w = weight({33});
  const at::Tensor added = random({100, 33});
  compare(
      inputs({100, 33}),
      [&](const auto& x) {
        const SumAndNorm both = add_rms_norm(x, added, w, 1e-3, NormRounding::kOnce);
        return both.norm + both.sum * 3;
      },
      [&](const auto& x, const auto& w64, const auto&) {
        const at::Tensor sum = x + added.to(at::kDouble);
        return sum * at::rsqrt(sum.square().mean(1, true) + 1e-3) * w64 + sum * 3;
      });
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && at::equal(a, b);
}

/// The results of a norm and of the sum it is of, and the gradients.
struct Through {
  at::Tensor sum, norm, dx, dadded, dw;
};

/// Case of the test below.
struct SumCase {
  at::ScalarType type;
  bool added;      ///< something is added before the norm
  bool sum_used;   ///< the sum has a gradient
  bool norm_used;  ///< the norm has one
  bool frozen;     ///< the weight has none
};

/// Goes through `operation`(x, added, weight), and back from both results.
template <class Operation>
Through through(const SumCase& of, const Operation& operation) {
  at::manual_seed(1);
  const auto leaf = [&](at::IntArrayRef shape) { return at::randn(shape).to(of.type).requires_grad_(true); };
  const at::Tensor x = leaf({70, 1001});
  const at::Tensor added = of.added ? leaf({70, 1001}) : at::Tensor();
  Parameter w("w", {1001}, InitSpec{});
  w.value = leaf({1001}).detach().requires_grad_(!of.frozen);
  const SumAndNorm both = operation(x, added, w);
  at::Tensor loss = at::zeros({});
  if (of.norm_used) loss = loss + (both.norm * leaf({70, 1001}).detach()).to(at::kDouble).sum();
  if (of.sum_used) loss = loss + (both.sum * leaf({70, 1001}).detach()).to(at::kDouble).sum();
  loss.backward();
  return {both.sum, both.norm, x.grad(), of.added ? added.grad() : x.grad(), w.value.grad()};
}

void compare_steps(const SumCase& of) {
  constexpr double kEps = 1e-5;
  const Through one = through(of, [](const at::Tensor& x, const at::Tensor& added, Parameter& w) {
    return add_rms_norm(x, added, w, kEps, NormRounding::kTwice);
  });
  const Through steps = through(of, [](const at::Tensor& x, const at::Tensor& added, Parameter& w) {
    const at::Tensor sum = added.defined() ? at::add(x, added) : x;
    return SumAndNorm{sum, rms_norm(sum, w, kEps, NormRounding::kTwice)};
  });
  EXPECT_TRUE(same_bits(one.sum, steps.sum));
  EXPECT_TRUE(same_bits(one.norm, steps.norm));
  EXPECT_TRUE(same_bits(one.dadded, one.dx));
  ASSERT_EQ(one.dw.defined(), steps.dw.defined());
  EXPECT_TRUE(!steps.dw.defined() || same_bits(one.dw, steps.dw));
  EXPECT_TRUE(same_bits(one.dx, steps.dx));
}

TEST(RmsNorm, OfAResidualSumHasTheBitsOfSeparateSteps) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int choice : {0, 1, 2, 3, 4, 5, 6, 7}) {
      for (const bool frozen : {false, true}) {
        const SumCase of{type, (choice & 1) != 0, (choice & 2) != 0, (choice & 4) != 0, frozen};
        if (!of.sum_used && !of.norm_used) continue;
        SCOPED_TRACE(testing::Message() << c10::toString(type) << " choice " << choice << frozen);
        compare_steps(of);
      }
    }
  }
}

TEST_P(Ops, SwigluAndGegluMatchAten) {
  const auto input = inputs({11, 2 * 19});
  compare(input, swiglu, [](const auto& x, const auto&, const auto&) {
    return at::silu(x.chunk(2, 1)[0]) * x.chunk(2, 1)[1];
  });
  compare(input, geglu, [](const auto& x, const auto&, const auto&) {
    return at::gelu(x.chunk(2, 1)[0], "tanh") * x.chunk(2, 1)[1];
  });
}

/// A case of attention: lengths of the sequences.
struct AttentionCase {
  std::vector<std::int64_t> lengths;
  AttentionOptions options;
  bool rotary;
  bool biased;
  std::int64_t still = 0;  ///< elements of a head that do not turn
};

struct Projections {
  at::Tensor q;  ///< [heads, T, d]
  at::Tensor k;  ///< [heads, keys, d]
  at::Tensor v;
};

/// Attention of one sequence from its definition, in double precision. bias: [heads, 2 * span - 1] or
/// undefined.
at::Tensor plain_attention(const Projections& p, const AttentionOptions& o, const at::Tensor& bias) {
  at::Tensor scores = at::matmul(p.q, p.k.transpose(1, 2)) * static_cast<double>(o.scale);
  const std::int64_t rows = scores.size(1);
  const std::int64_t columns = scores.size(2);
  if (bias.defined()) {
    const at::Tensor distance = at::arange(columns) - at::arange(rows).unsqueeze(1) + bias.size(1) / 2;
    scores = scores + bias.index_select(1, distance.flatten()).view_as(scores);
  }
  const at::Tensor all = at::ones({rows, columns}, at::kBool);
  if (o.causal) scores = scores.masked_fill(all.triu(1), -INFINITY);
  if (o.window > 0) scores = scores.masked_fill(all.tril(-o.window), -INFINITY);
  return at::matmul(scores.softmax(2), p.v).transpose(0, 1).reshape({rows, o.heads * o.head_dim});
}

/// [T, count * d] -> [count * repeat, T, d].
at::Tensor by_head(const at::Tensor& rows, std::int64_t count, std::int64_t repeat) {
  return rows.reshape({rows.size(0), count, -1}).transpose(0, 1).repeat_interleave(repeat, 0);
}

at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos_sin) {
  const auto table = cos_sin.narrow(0, 0, x.size(1)).to(at::kDouble).chunk(2, 1);
  const std::int64_t width = cos_sin.size(1);
  const auto halves = x.narrow(2, 0, width).chunk(2, 2);
  return at::cat({halves[0] * table[0] - halves[1] * table[1], halves[1] * table[0] + halves[0] * table[1],
                  x.narrow(2, width, x.size(2) - width)},
                 2);
}

at::Tensor plain_self_attention(const at::Tensor& qkv, const AttentionCase& c, const at::Tensor& cos_sin,
                                const at::Tensor& bias) {
  const AttentionOptions& o = c.options;
  const std::int64_t kv_width = o.kv_heads * o.head_dim;
  std::vector<at::Tensor> results;
  std::int64_t begin = 0;
  for (const std::int64_t length : c.lengths) {
    const auto parts =
        qkv.narrow(0, begin, length).split_with_sizes({o.heads * o.head_dim, kv_width, kv_width}, 1);
    begin += length;
    Projections p{by_head(parts[0], o.heads, 1), by_head(parts[1], o.kv_heads, o.heads / o.kv_heads),
                  by_head(parts[2], o.kv_heads, o.heads / o.kv_heads)};
    if (c.rotary) p = {rotated(p.q, cos_sin), rotated(p.k, cos_sin), p.v};
    results.push_back(plain_attention(p, o, bias));
  }
  return at::cat(results);
}

TEST_P(Ops, SelfAttentionMatchesItsDefinition) {
  if (!GetParam().sink) return;  // no weights: one way is all
  const AttentionCase cases[] = {
      {{1, 1}, {2, 1, 4, true, 0.5F}, true, false},
      {{37, 37}, {6, 3, 10, true, 0.3F}, true, false},
      {{127, 5, 128, 1}, {4, 1, 8, true, 0.4F}, true, false},
      {{129, 300}, {3, 1, 14, true, 0.25F}, true, false},
      {{37, 130}, {4, 2, 16, true, 0.3F}, true, false, 4},
      {{37, 37}, {2, 1, 10, true, 0.3F}, true, false, 8},
      {{5, 64}, {2, 2, 6, true, 0.4F}, false, false},
      {{5, 150}, {4, 4, 6, false, 0.4F}, false, false},
      {{150, 1, 300}, {4, 2, 8, true, 0.4F, 17}, true, false},
      {{140, 140}, {3, 3, 8, true, 0.4F, 130}, false, false},
      {{300}, {2, 1, 10, true, 0.4F, 1}, true, false},
      {{131, 1, 20}, {4, 4, 8, false, 1.0F}, false, true},
      {{131, 1, 20}, {4, 2, 8, true, 1.0F}, false, true},
  };
  for (const AttentionCase& c : cases) {
    const AttentionOptions& o = c.options;
    const Sequences sequences = make_sequences(c.lengths);
    const at::Tensor angle = at::rand({sequences->longest() + 3, (o.head_dim - c.still) / 2}) * 6.28;
    const at::Tensor cos_sin = at::cat({angle.cos(), angle.sin()}, 1).contiguous();
    const at::Tensor qkv = leaf({sequences->tokens(), (o.heads + 2 * o.kv_heads) * o.head_dim});
    const at::Tensor bias = c.biased ? leaf({o.heads, 2 * sequences->longest() + 3}) : at::Tensor();
    const at::Tensor qkv64 = exact(qkv);
    const at::Tensor bias64 = c.biased ? exact(bias) : at::Tensor();
    const at::Tensor y =
        self_attention(qkv, sequences, o, {.rotary = c.rotary ? cos_sin : at::Tensor(), .bias = bias});
    const at::Tensor y64 = plain_self_attention(qkv64, c, cos_sin, bias64);
    SCOPED_TRACE(c.lengths[0]);
    go_back(y, y64, qkv, qkv64);
    if (c.biased) expect_near(bias.grad(), bias64.grad(), "bias gradient");
  }
}

TEST_P(Ops, HeadNormNormsEachHeadOfQueriesAndKeysOrAllTogether) {
  constexpr std::int64_t kTokens = 37;
  constexpr std::int64_t kHeads = 6;
  constexpr std::int64_t kKvHeads = 2;
  constexpr std::int64_t kSize = 10;
  constexpr double kEps = 1e-3;
  for (const bool each : {true, false}) {
    Parameter& q = weight({each ? kSize : kHeads * kSize});
    Parameter& k = bias({each ? kSize : kKvHeads * kSize});
    const at::Tensor qkv = leaf({kTokens, (kHeads + 2 * kKvHeads) * kSize});
    const at::Tensor qkv64 = exact(qkv);
    const at::Tensor q64 = exact(q.value);
    const at::Tensor k64 = exact(k.value);
    const auto normed = [](const at::Tensor& x, const at::Tensor& weight) {
      const at::Tensor heads = x.view({x.size(0), -1, weight.size(0)});
      return (heads / (heads.square().mean(2, true) + kEps).sqrt() * weight).flatten(1);
    };
    const auto parts = qkv64.split_with_sizes({kHeads * kSize, kKvHeads * kSize, kKvHeads * kSize}, 1);
    const at::Tensor y64 = at::cat({normed(parts[0], q64), normed(parts[1], k64), parts[2]}, 1);
    const at::Tensor y = head_norm(qkv, q, k, kKvHeads * kSize, kEps, NormRounding::kTwice);
    go_back(y, y64, qkv, qkv64);
    expect_near(weight_gradient(), q64.grad(), "gradient of the queries' weight");
    expect_near(gradient_of(k), k64.grad(), "gradient of the keys' weight");
  }
}

TEST_P(Ops, CrossAttentionMatchesItsDefinition) {
  if (!GetParam().sink) return;
  const AttentionOptions o{4, 2, 8, false, 0.4F};
  const Sequences queries = make_sequences({5, 1, 140});
  const Sequences keys = make_sequences({130, 7, 33});
  const at::Tensor q = leaf({queries->tokens(), o.heads * o.head_dim});
  const at::Tensor kv = leaf({keys->tokens(), 2 * o.kv_heads * o.head_dim});
  const at::Tensor q64 = exact(q);
  const at::Tensor kv64 = exact(kv);
  std::vector<at::Tensor> results;
  for (std::int64_t s = 0; s < queries->count(); ++s) {
    const auto parts = kv64.narrow(0, keys->begin(s), keys->length(s)).chunk(2, 1);
    const at::Tensor rows = q64.narrow(0, queries->begin(s), queries->length(s));
    results.push_back(plain_attention(
        {by_head(rows, o.heads, 1), by_head(parts[0], o.kv_heads, 2), by_head(parts[1], o.kv_heads, 2)}, o,
        {}));
  }
  go_back(cross_attention(q, kv, queries, keys, o), at::cat(results), q, q64);
  expect_near(kv.grad(), kv64.grad(), "key and value gradient");
}

TEST_P(Ops, MaxPoolIsThatOfATen) {
  if (!GetParam().sink) return;
  for (const auto& [height, width] : {std::pair{6, 8}, {7, 5}, {2, 3}}) {
    // Few values: many windows have equal ones.
    const at::Tensor x = at::randint(0, 3, {3, 2, height, width}).to(GetParam().type).requires_grad_(true);
    const at::Tensor same = x.detach().clone().requires_grad_(true);
    const at::Tensor y = max_pool_2x2(x);
    const at::Tensor wanted = at::max_pool2d(same, 2);
    EXPECT_TRUE(y.equal(wanted));
    const at::Tensor dy = random(y.sizes());
    y.backward(dy);
    wanted.backward(dy);
    EXPECT_TRUE(x.grad().equal(same.grad()));
  }
}

TEST_P(Ops, AttentionNeverLooksAhead) {
  const AttentionOptions options{2, 1, 8, true, 0.35F};
  const Sequences one = make_sequences(1, 200);
  const at::Tensor qkv = random({200, 4 * 8});
  at::Tensor changed = qkv.clone();
  changed.narrow(0, 150, 50).fill_(100.0);
  const at::Tensor y = self_attention(qkv, one, options, {});
  const at::Tensor y_changed = self_attention(changed, one, options, {});
  EXPECT_TRUE(at::equal(y.narrow(0, 0, 150), y_changed.narrow(0, 0, 150)));
  EXPECT_FALSE(at::equal(y.narrow(0, 150, 50), y_changed.narrow(0, 150, 50)));
}

TEST_P(Ops, AttentionRefusesShapesThatDoNotFit) {
  const AttentionOptions options{2, 1, 8, true, 0.35F};
  const Sequences two = make_sequences(2, 5);
  EXPECT_THROW((void)self_attention(random({9, 32}), two, options, {}), Error);
  EXPECT_THROW((void)self_attention(random({10, 32}), two, options, {.rotary = {}, .bias = random({2, 7})}),
               Error);
  EXPECT_THROW((void)cross_attention(random({10, 16}), random({10, 16}), two, make_sequences(1, 10), options),
               Error);
  EXPECT_THROW((void)make_sequences({3, 0}), Error);
}

TEST_P(Ops, UseHandsAWeightAndItsGradientToAnyOperation) {
  Parameter& w = weight({6, 5});
  const at::Tensor w64 = exact(w.value);
  for (int pass = 0; pass < 2; ++pass) {
    const at::Tensor x = random({4, 5});
    const at::Tensor dy = random({4, 6});
    at::linear(x, use(w)).tanh().backward(dy);
    at::linear(x.to(at::kDouble), w64).tanh().backward(dy.to(at::kDouble));
    expect_near(weight_gradient(), w64.grad(), "weight gradient");
  }
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
    expect_near(token_losses(x, w, targets),
                at::cross_entropy_loss(at::linear(x64, w64), targets, {}, at::Reduction::None),
                "losses of tokens");
  }
}

TEST_P(Ops, WeightsOfTokensMultiplyTheirGradientsAlone) {
  Parameter& w = weight({31, 9});
  const at::Tensor w64 = exact(w.value);
  const at::Tensor x = leaf({23, 9});
  const at::Tensor x64 = exact(x);
  const at::Tensor targets = at::randint(0, 31, {23}, at::kLong);
  const at::Tensor weights = at::randn({23});
  const at::Tensor loss = linear_cross_entropy(x, w, targets, 0.125, at::kFloat, weights);
  const at::Tensor losses64 = at::cross_entropy_loss(at::linear(x64, w64), targets, {}, at::Reduction::None);
  loss.backward();
  ((losses64 * weights).sum() * 0.125).backward();
  expect_near(loss, losses64.sum(), "loss");
  expect_near(x.grad(), x64.grad(), "input gradient");
  expect_near(weight_gradient(), w64.grad(), "weight gradient");
}

TEST_P(Ops, OfAFrozenWeightOnlyTheInputHasAGradient) {
  Parameter& w = weight({13, 7});
  w.value = w.value.detach();
  Parameter& b = bias({13});
  const at::Tensor w64 = w.value.to(at::kDouble);
  const at::Tensor x = leaf({29, 7});
  const at::Tensor x64 = exact(x);
  const auto again = []() -> at::Tensor { throw std::logic_error("only the weight's gradient needs x"); };
  const at::Tensor targets = at::randint(0, 13, {29}, at::kLong);
  linear(x, w, again, &b).sum().backward();
  linear_cross_entropy(x, w, targets, 1.0).backward();
  at::linear(x64, w64).sum().backward();
  at::cross_entropy_loss(at::linear(x64, w64), targets, {}, at::Reduction::Sum).backward();
  expect_near(x.grad(), x64.grad(), "input gradient");
  EXPECT_EQ(gradient_of(b)[3].item<double>(), 29.0) << "the bias is trained";
  EXPECT_FALSE(w.value.grad().defined());
  EXPECT_FALSE(w.deposited);
}

TEST_P(Ops, WithoutATrainedInputTheWeightStillHasItsGradient) {
  Parameter& w = weight({13, 7});
  const at::Tensor w64 = exact(w.value);
  const at::Tensor x = random({29, 7});
  const at::Tensor targets = at::randint(0, 13, {29}, at::kLong);
  linear_cross_entropy(x, w, targets, 1.0).backward();
  at::cross_entropy_loss(at::linear(x.to(at::kDouble), w64), targets, {}, at::Reduction::Sum).backward();
  expect_near(weight_gradient(), w64.grad(), "weight gradient");
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
  const at::NoGradGuard no_grad;
  expect_near(token_losses(x, w, targets),
              at::cross_entropy_loss(at::linear(x32, w32), targets, {}, at::Reduction::None), "tokens");
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
