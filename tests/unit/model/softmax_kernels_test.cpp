#include <gtest/gtest.h>

#include "model/kernels/kernels.h"
#include "unit/model/reference.h"

namespace echelon::kernels {
namespace {

using namespace test;  // NOLINT

template <class T>
class SoftmaxKernels : public ::testing::Test {};
using Types = ::testing::Types<float, Bf16>;
TYPED_TEST_SUITE(SoftmaxKernels, Types);

struct Softmax {
  double log_sum_exp;
  std::vector<double> probabilities;
};

Softmax softmax(const std::vector<double>& x) {
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const double value : x) sum += std::exp(value - top);
  Softmax result{top + std::log(sum), {}};
  for (const double value : x) result.probabilities.push_back(std::exp(value - result.log_sum_exp));
  return result;
}

template <class T>
float cross_entropy(std::vector<T> logits, std::int64_t target) {
  float loss = -1;
  const auto n = static_cast<std::int64_t>(logits.size());
  kernels<T>().cross_entropy(logits.data(), 1, n, &target, nullptr, &loss);
  return loss;
}

/// Turns the logits into their gradient.
template <class T>
float softmax_cross_entropy(std::vector<T>& logits, std::int64_t target, double scale) {
  float loss = -1;
  const auto n = static_cast<std::int64_t>(logits.size());
  kernels<T>().cross_entropy(logits.data(), 1, n, &target, &scale, &loss);
  return loss;
}

TYPED_TEST(SoftmaxKernels, CrossEntropyAndItsGradient) {
  for (const std::int64_t n : {1, 2, 63, 64, 65, 511, 513, 1300}) {
    const auto logits = random_values<TypeParam>(n, static_cast<unsigned>(n), 4.0);
    const std::int64_t target = n / 2;
    const auto exact = softmax(doubles(logits));
    const double loss = exact.log_sum_exp - doubles(logits)[target];
    auto gradient = logits;
    const float returned = softmax_cross_entropy(gradient, target, 0.25);
    EXPECT_NEAR(static_cast<double>(returned), loss, 2e-6 * (1 + std::abs(exact.log_sum_exp)));
    EXPECT_EQ(cross_entropy(logits, target), returned);
    std::vector<double> expected = exact.probabilities;
    expected[target] -= 1.0;
    for (double& value : expected) value *= 0.25;
    expect_close(gradient, expected, 4 * kRounding<TypeParam>);
  }
}

TYPED_TEST(SoftmaxKernels, CrossEntropyOfAnIgnoredRowIsNothing) {
  auto logits = random_values<TypeParam>(77, 1);
  logits[3] = TypeParam{};
  EXPECT_EQ(cross_entropy(logits, -1), 0.0F);
  EXPECT_EQ(softmax_cross_entropy(logits, -100, 1.0), 0.0F);
  for (const TypeParam& value : logits) EXPECT_EQ(to_float(value), 0.0F);
}

TYPED_TEST(SoftmaxKernels, CrossEntropyOfExtremeLogits) {
  auto logits = random_values<TypeParam>(100, 1);
  test::assign(logits[7], 1e4);
  test::assign(logits[70], -1e4);
  const double high = static_cast<double>(to_float(logits[7]));
  const double low = static_cast<double>(to_float(logits[70]));
  EXPECT_EQ(cross_entropy(logits, 7), 0.0F);
  EXPECT_NEAR(static_cast<double>(cross_entropy(logits, 70)), high - low, 1e-6 * high);
  auto gradient = logits;
  (void)softmax_cross_entropy(gradient, 70, 1.0);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(to_float(gradient[i]), i == 7 ? 1.0F : (i == 70 ? -1.0F : 0.0F)) << i;
}

/// e^x as the kernels compute it: the probability of a score x under a log-sum-exp of zero.
std::vector<float> exponentials(std::vector<float> x) {
  const std::vector<float> zero(x.size());
  const auto n = static_cast<std::int64_t>(x.size());
  kernels<float>().attention_probabilities(x.data(), zero.data(), {n, 1, 0, true, 1.0F, nullptr});
  return x;
}

TEST(Exponential, IsAccurateOverItsWholeRange) {
  std::vector<float> x;
  for (double value = -87.3; value < 88.3; value += 0.00137) x.push_back(static_cast<float>(value));
  const std::vector<float> y = exponentials(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    ASSERT_NEAR(static_cast<double>(y[i]) / exact, 1.0, 0x1p-22) << x[i];  // 2 units in the last place
  }
}

TEST(Exponential, IsAccurateInRowsThatAreVectorized) {
  auto row = random_values<float>(1000, 3, 20.0);
  row[0] = 0.0F;
  std::vector<double> expected;
  for (float& value : row) {
    value = -std::abs(value);
    expected.push_back(std::exp(static_cast<double>(value)));
  }
  const float zero = 0.0F;
  kernels<float>().attention_probabilities(row.data(), &zero, {1, 1000, 999, true, 1.0F, nullptr});
  for (std::size_t i = 0; i < row.size(); ++i)
    ASSERT_NEAR(static_cast<double>(row[i]) / expected[i], 1.0, 0x1p-22) << i;
}

TEST(Exponential, EndsInZeroAndInfinityAndKeepsNotANumber) {
  const auto y = exponentials(
      {-88.0F, -104.0F, -150.0F, -1e4F, -1e30F, -INFINITY, 88.8F, 1e4F, 1e30F, INFINITY, NAN, 0.0F, -0.0F});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(y[i], 0.0F) << i;
  for (int i = 6; i < 10; ++i) EXPECT_EQ(y[i], INFINITY) << i;
  EXPECT_TRUE(std::isnan(y[10]));
  EXPECT_EQ(y[11], 1.0F);
  EXPECT_EQ(y[12], 1.0F);
}

TEST(Exponential, KeepsEveryKindOfNotANumber) {
  std::vector<float> x;
  for (std::uint32_t payload = 1; payload < 0x400000U; payload += 12'345) {
    x.push_back(std::bit_cast<float>(0x7FC00000U | payload));
    x.push_back(std::bit_cast<float>(0xFF800000U | payload));
  }
  for (const float y : exponentials(x)) ASSERT_TRUE(std::isnan(y));
}

struct ScoresCase {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t first;
  bool causal;
  bool biased;
};
constexpr ScoresCase kScoresCases[] = {{1, 1, 0, true, false},    {7, 7, 0, true, true},
                                       {5, 70, 65, true, false},  {128, 128, 0, true, false},
                                       {3, 600, 597, true, true}, {5, 70, 0, false, false},
                                       {64, 33, 128, false, true}};

/// A bias for every difference of column and row, and a pointer to that of zero.
struct Bias {
  explicit Bias(const ScoresCase& c) : values(random_values<float>(c.rows + c.columns, 9)), rows(c.rows) {}
  [[nodiscard]] const float* zero() const { return values.data() + rows; }
  std::vector<float> values;
  std::int64_t rows;
};

TYPED_TEST(SoftmaxKernels, AttentionSoftmaxMasksTheFutureAndAddsTheBias) {
  for (const ScoresCase& c : kScoresCases) {
    const Bias bias(c);
    const ScoreRows shape{c.rows, c.columns, c.first, c.causal, 0.3F, c.biased ? bias.zero() : nullptr};
    const auto scores = random_values<TypeParam>(c.rows * c.columns, 5, 6.0);
    auto probabilities = scores;
    std::vector<float> log_sum_exp(static_cast<std::size_t>(c.rows));
    kernels<TypeParam>().attention_softmax(probabilities.data(), log_sum_exp.data(), shape);
    auto again = scores;
    kernels<TypeParam>().attention_probabilities(again.data(), log_sum_exp.data(), shape);
    std::vector<double> expected(scores.size(), 0.0);
    for (std::int64_t r = 0; r < c.rows; ++r) {
      const std::int64_t n = c.causal ? std::min(c.columns, c.first + r + 1) : c.columns;
      std::vector<double> row;
      for (std::int64_t i = 0; i < n; ++i) {
        const double added = c.biased ? static_cast<double>(bias.zero()[i - r]) : 0.0;
        const float scaled = to_float(scores[r * c.columns + i]) * 0.3F;
        TypeParam rounded{};  // a biased score is kept in the type of the scores
        test::assign(rounded, static_cast<double>(scaled) + added);
        row.push_back(c.biased ? static_cast<double>(to_float(rounded))
                               : static_cast<double>(to_float(scores[r * c.columns + i])) *
                                     static_cast<double>(0.3F));
      }
      const auto exact = softmax(row);
      EXPECT_NEAR(static_cast<double>(log_sum_exp[r]), exact.log_sum_exp, 1e-5);
      std::copy(exact.probabilities.begin(), exact.probabilities.end(), expected.begin() + r * c.columns);
      for (std::int64_t i = n; i < c.columns; ++i)
        ASSERT_EQ(to_float(probabilities[r * c.columns + i]), 0.0F) << r << ',' << i;
    }
    expect_close(probabilities, expected, 3 * kRounding<TypeParam> + 4e-6);
    expect_close(again, expected, 3 * kRounding<TypeParam> + 4e-6);
  }
}

TYPED_TEST(SoftmaxKernels, AttentionSoftmaxBackwardIsTheDerivative) {
  for (const ScoresCase& c : kScoresCases) {
    auto probs = random_values<TypeParam>(c.rows * c.columns, 5);
    auto dprobs = random_values<TypeParam>(c.rows * c.columns, 6);
    const auto delta = random_values<float>(c.rows, 7);
    std::vector<double> expected(probs.size(), 0.0);
    std::vector<double> expected_bias(static_cast<std::size_t>(c.rows + c.columns), 0.0);
    for (std::int64_t r = 0; r < c.rows; ++r) {
      for (std::int64_t i = 0; i < c.columns && (!c.causal || i <= c.first + r); ++i) {
        const std::int64_t at = r * c.columns + i;
        const double score = static_cast<double>(to_float(probs[at])) *
                             (static_cast<double>(to_float(dprobs[at])) - static_cast<double>(delta[r]));
        expected[at] = score * 0.5;
        expected_bias[c.rows + i - r] += score;
      }
    }
    std::vector<float> dbias(expected_bias.size(), 0.0F);
    kernels<TypeParam>().attention_softmax_backward(probs.data(), dprobs.data(), delta.data(),
                                                    {c.rows, c.columns, c.first, c.causal, 0.5F, nullptr},
                                                    c.biased ? dbias.data() + c.rows : nullptr);
    expect_close(dprobs, expected);
    if (c.biased) expect_close(dbias, expected_bias, 1e-5);
  }
}

}  // namespace
}  // namespace echelon::kernels
