#include "model/kernels/kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "base/half.h"
#include "unit/model/reference.h"

namespace echelon::kernels {
namespace {

using namespace test;  // NOLINT

template <class T>
class Kernels : public ::testing::Test {};
using Types = ::testing::Types<float, Bf16>;
TYPED_TEST_SUITE(Kernels, Types);

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

constexpr NormRounding kOnce = NormRounding::kOnce;
constexpr std::int64_t kRows = 5;
constexpr std::int64_t kWidths[] = {1, 3, 16, 67, 129, 515};

TYPED_TEST(Kernels, RmsNormDividesByTheRootMeanSquare) {
  for (const std::int64_t n : kWidths) {
    const auto x = random_values<TypeParam>(kRows * n, 1);
    const auto w = random_values<TypeParam>(n, 2);
    std::vector<TypeParam> y(x.size());
    std::vector<float> inv_rms(kRows);
    kernels<TypeParam>().rms_norm(x.data(), nullptr, nullptr, w.data(), y.data(), inv_rms.data(), {kRows, n},
                                  1e-5F, kOnce);
    const auto xd = doubles(x);
    const auto wd = doubles(w);
    std::vector<double> expected(x.size());
    for (std::int64_t r = 0; r < kRows; ++r) {
      double sum = 0;
      for (std::int64_t i = 0; i < n; ++i) sum += xd[r * n + i] * xd[r * n + i];
      const double inv = 1.0 / std::sqrt(sum / static_cast<double>(n) + 1e-5);
      EXPECT_NEAR(static_cast<double>(inv_rms[r]), inv, 1e-6 * inv);
      for (std::int64_t i = 0; i < n; ++i) expected[r * n + i] = xd[r * n + i] * inv * wd[i];
    }
    expect_close(y, expected);
  }
}

TYPED_TEST(Kernels, RmsNormOfZerosIsZero) {
  const std::vector<TypeParam> x(17);
  const auto w = random_values<TypeParam>(17, 2);
  std::vector<TypeParam> y = random_values<TypeParam>(17, 3);
  float inv_rms = 0;
  kernels<TypeParam>().rms_norm(x.data(), nullptr, nullptr, w.data(), y.data(), &inv_rms, {1, 17}, 1e-5F,
                                kOnce);
  for (const TypeParam& value : y) EXPECT_EQ(to_float(value), 0.0F);
  EXPECT_TRUE(std::isfinite(inv_rms));
}

TYPED_TEST(Kernels, RmsNormBackwardIsTheDerivative) {
  for (const std::int64_t n : kWidths) {
    const auto x = random_values<TypeParam>(kRows * n, 1);
    const auto w = random_values<TypeParam>(n, 2);
    const auto dy = random_values<TypeParam>(kRows * n, 3);
    std::vector<TypeParam> y(x.size());
    std::vector<TypeParam> dx(x.size());
    std::vector<float> inv_rms(kRows);
    std::vector<float> dw(static_cast<std::size_t>(n), 0.5F);  // sums go on top of what is there
    const auto& k = kernels<TypeParam>();
    k.rms_norm(x.data(), nullptr, nullptr, w.data(), y.data(), inv_rms.data(), {kRows, n}, 1e-5F, kOnce);
    k.rms_norm_backward(dy.data(), nullptr, x.data(), w.data(), inv_rms.data(), dx.data(), dw.data(),
                        {kRows, n}, kOnce);
    const auto xd = doubles(x);
    const auto wd = doubles(w);
    const auto gd = doubles(dy);
    std::vector<double> expected_dx(x.size());
    std::vector<double> expected_dw(static_cast<std::size_t>(n), 0.5);
    for (std::int64_t r = 0; r < kRows; ++r) {
      double sum = 0;
      double dot = 0;
      for (std::int64_t i = r * n; i < (r + 1) * n; ++i) {
        sum += xd[i] * xd[i];
        dot += gd[i] * xd[i] * wd[i - r * n];
      }
      const double inv = 1.0 / std::sqrt(sum / static_cast<double>(n) + 1e-5);
      for (std::int64_t i = r * n; i < (r + 1) * n; ++i) {
        expected_dx[i] = gd[i] * wd[i - r * n] * inv - xd[i] * dot * inv * inv * inv / static_cast<double>(n);
        expected_dw[i - r * n] += gd[i] * xd[i] * inv;
      }
    }
    // The two terms of dx may cancel (for n = 1 they do entirely).
    if (n > 1) expect_close(dx, expected_dx, 8 * kRounding<TypeParam>);
    expect_close(dw, expected_dw);
  }
}

TYPED_TEST(Kernels, TheGradientOfAVectorMayBeLeftOut) {
  const std::int64_t n = 61;
  const auto x = random_values<TypeParam>(kRows * n, 1);
  const auto w = random_values<TypeParam>(n, 2);
  const auto dy = random_values<TypeParam>(kRows * n, 3);
  std::vector<float> statistics(2 * kRows, 0.7F);
  const auto& k = kernels<TypeParam>();
  const auto expect_close_dx = [&](const auto& backward) {
    std::vector<TypeParam> with(x.size());
    std::vector<TypeParam> without(x.size());
    std::vector<float> dw(n);
    std::vector<float> db(n);
    backward(with.data(), dw.data(), db.data());
    backward(without.data(), nullptr, nullptr);
    expect_close(without, doubles(with), 4 * kRounding<TypeParam>);
  };
  expect_close_dx([&](TypeParam* dx, float* dw, float*) {
    k.rms_norm_backward(dy.data(), nullptr, x.data(), w.data(), statistics.data(), dx, dw, {kRows, n}, kOnce);
  });
  expect_close_dx([&](TypeParam* dx, float* dw, float* db) {
    k.layer_norm_backward(dy.data(), x.data(), w.data(), statistics.data(), dx, dw, db, kRows, n);
  });
  expect_close_dx([&](TypeParam* dx, float*, float* db) {
    k.bias_gelu_backward(dy.data(), x.data(), w.data(), dx, db, kRows, n);
  });
}

TYPED_TEST(Kernels, SwigluAndItsBackward) {
  for (const std::int64_t n : kWidths) {
    const auto gate_up = random_values<TypeParam>(kRows * 2 * n, 1, 3.0);
    const auto dout = random_values<TypeParam>(kRows * n, 2);
    std::vector<TypeParam> out(dout.size());
    std::vector<TypeParam> grads(gate_up.size());
    kernels<TypeParam>().swiglu(gate_up.data(), out.data(), kRows, n);
    kernels<TypeParam>().swiglu_backward(gate_up.data(), dout.data(), grads.data(), kRows, n);
    const auto in = doubles(gate_up);
    const auto d = doubles(dout);
    std::vector<double> expected(out.size());
    std::vector<double> expected_grads(gate_up.size());
    for (std::int64_t r = 0; r < kRows; ++r) {
      for (std::int64_t i = 0; i < n; ++i) {
        const double g = in[r * 2 * n + i];
        const double up = in[r * 2 * n + n + i];
        const double s = sigmoid(g);
        expected[r * n + i] = g * s * up;
        expected_grads[r * 2 * n + i] = d[r * n + i] * up * (s + g * s * (1 - s));
        expected_grads[r * 2 * n + n + i] = d[r * n + i] * g * s;
      }
    }
    expect_close(out, expected);
    expect_close(grads, expected_grads);
  }
}

TYPED_TEST(Kernels, SwigluOfExtremeGatesStaysFinite) {
  std::vector<TypeParam> gate_up(8);
  const double gates[] = {-1e4, -200.0, 200.0, 1e4};
  for (int i = 0; i < 4; ++i) {
    test::assign(gate_up[i], gates[i]);
    test::assign(gate_up[4 + i], 1.0);
  }
  std::vector<TypeParam> out(4);
  kernels<TypeParam>().swiglu(gate_up.data(), out.data(), 1, 4);
  for (int i = 0; i < 4; ++i) {
    const double gate = static_cast<double>(to_float(gate_up[i]));
    EXPECT_NEAR(static_cast<double>(to_float(out[i])), gate > 0 ? gate : 0.0, 1e-30) << gate;
  }
}

TYPED_TEST(Kernels, NotANumberIsNeverHidden) {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()};
  for (const float value : bad) {
    for (const std::int64_t at : {0, 63, 64, 150}) {
      auto logits = random_values<TypeParam>(151, 1);
      test::assign(logits[at], static_cast<double>(value));
      const std::int64_t target = 5;
      float loss = 0;
      kernels<TypeParam>().cross_entropy(logits.data(), 1, 151, &target, nullptr, &loss);
      EXPECT_TRUE(std::isnan(std::exchange(loss, 0.0F))) << at;
      const double scale = 1;
      kernels<TypeParam>().cross_entropy(logits.data(), 1, 151, &target, &scale, &loss);
      EXPECT_TRUE(std::isnan(loss)) << at;
      EXPECT_TRUE(std::isnan(to_float(logits[5]))) << at;
    }
  }
  auto x = random_values<TypeParam>(40, 1);
  test::assign(x[9], std::numeric_limits<double>::quiet_NaN());
  const auto w = random_values<TypeParam>(40, 2);
  std::vector<TypeParam> y(40);
  float inv_rms = 0;
  kernels<TypeParam>().rms_norm(x.data(), nullptr, nullptr, w.data(), y.data(), &inv_rms, {1, 40}, 1e-5F,
                                kOnce);
  EXPECT_TRUE(std::isnan(to_float(y[0])));
  kernels<TypeParam>().swiglu(x.data(), y.data(), 1, 20);
  EXPECT_TRUE(std::isnan(to_float(y[9])));
}

TYPED_TEST(Kernels, RowDotsAndSumRows) {
  for (const std::int64_t n : kWidths) {
    const auto a = random_values<TypeParam>(kRows * n, 1);
    const auto b = random_values<TypeParam>(kRows * n, 2);
    const auto ad = doubles(a);
    const auto bd = doubles(b);
    std::vector<float> dots(kRows);
    kernels<TypeParam>().row_dots(a.data(), b.data(), dots.data(), kRows, n);
    for (std::int64_t r = 0; r < kRows; ++r) {
      double dot = 0;
      double size = 0;
      for (std::int64_t i = r * n; i < (r + 1) * n; ++i) {
        dot += ad[i] * bd[i];
        size += std::abs(ad[i] * bd[i]);
      }
      EXPECT_NEAR(static_cast<double>(dots[r]), dot, 1e-6 * size);
    }
    const std::int64_t rows[] = {3, 0, 3, 4};
    for (const bool add : {false, true}) {
      auto out = random_values<TypeParam>(n, 9);
      std::vector<double> expected(static_cast<std::size_t>(n));
      for (std::int64_t i = 0; i < n; ++i) {
        expected[i] =
            (add ? static_cast<double>(to_float(out[i])) : 0.0) + 2 * ad[3 * n + i] + ad[i] + ad[4 * n + i];
      }
      kernels<TypeParam>().sum_rows(a.data(), rows, 4, out.data(), n, add);
      expect_close(out, expected);
    }
  }
}

/// Heads of which the first `turned` elements turn.
template <class T>
void check_rope(std::int64_t turned) {
  const QkvShape shape{.seq_len = 5, .heads = 6, .kv_heads = 2, .head_dim = 14};
  const std::int64_t d = shape.head_dim;
  const std::int64_t width = (shape.heads + 2 * shape.kv_heads) * d;
  const auto table = random_values<float>(shape.seq_len * turned, 3);
  const auto row = random_values<T>(width, 4);
  const std::int64_t position = 3;
  std::vector<T> q(static_cast<std::size_t>(shape.heads * shape.seq_len * d));
  std::vector<T> k(static_cast<std::size_t>(shape.kv_heads * shape.seq_len * d));
  auto v = k;
  const RowAngles angles{table.data(), &position, turned};
  kernels<T>().rope_split(row.data(), q.data(), k.data(), v.data(), angles, position, 1, shape);
  std::vector<T> merged(row.size());
  kernels<T>().rope_merge(merged.data(), q.data(), k.data(), v.data(), angles, position, 1, shape);
  for (std::int64_t head = 0; head < shape.heads + 2 * shape.kv_heads; ++head) {
    const bool is_q = head < shape.heads;
    const bool is_v = head >= shape.heads + shape.kv_heads;
    const auto& where = is_q ? q : (is_v ? v : k);
    const std::int64_t h = is_q ? head : (is_v ? head - shape.heads - shape.kv_heads : head - shape.heads);
    const T* at = where.data() + (h * shape.seq_len + position) * d;
    for (std::int64_t i = turned; i < d; ++i) {
      EXPECT_EQ(to_float(at[i]), to_float(row[head * d + i]));
      EXPECT_EQ(to_float(merged[head * d + i]), to_float(row[head * d + i]));
    }
    for (std::int64_t i = 0; i < turned / 2; ++i) {
      const auto a = static_cast<double>(to_float(row[head * d + i]));
      const auto b = static_cast<double>(to_float(row[head * d + i + turned / 2]));
      const double c = is_v ? 1.0 : static_cast<double>(table[position * turned + i]);
      const double s = is_v ? 0.0 : static_cast<double>(table[position * turned + i + turned / 2]);
      const double tolerance = 4 * kRounding<T> * (std::abs(a) + std::abs(b)) * (std::abs(c) + std::abs(s));
      EXPECT_NEAR(static_cast<double>(to_float(at[i])), a * c - b * s, tolerance);
      EXPECT_NEAR(static_cast<double>(to_float(at[i + turned / 2])), b * c + a * s, tolerance);
      // R^T R = (c^2 + s^2) I.
      const double square = c * c + s * s;
      EXPECT_NEAR(static_cast<double>(to_float(merged[head * d + i])), a * square,
                  2 * tolerance * (std::abs(c) + std::abs(s)) + 1e-12);
    }
  }
}

TYPED_TEST(Kernels, RopeRotatesPairsAndMergeIsItsTranspose) {
  for (const std::int64_t turned : {14, 6}) check_rope<TypeParam>(turned);
}

TEST(KernelValues, Bf16RoundsToNearestEven) {
  const float cases[] = {0.0F,       -0.0F,       1.0F,   1.00390625F, 1.01171875F,
                         3.1415927F, -2.7182817F, 1e-40F, 3.39e38F};
  auto values = random_values<float>(1000, 1);
  values.insert(values.end(), std::begin(cases), std::end(cases));
  std::vector<Bf16> rounded(values.size());
  kernels<Bf16>().from_float(values.data(), rounded.data(), static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Bf16 expected{};
    test::assign(expected, static_cast<double>(values[i]));
    EXPECT_EQ(rounded[i].bits, expected.bits) << values[i];
  }
}

TEST(KernelValues, Bf16KeepsInfinityAndNotANumber) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float values[] = {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(),
                          std::bit_cast<float>(0x7F800001U), std::bit_cast<float>(0xFFFFFFFFU)};
  Bf16 rounded[5];
  kernels<Bf16>().from_float(values, rounded, 5);
  EXPECT_EQ(to_float(rounded[0]), infinity);
  EXPECT_EQ(to_float(rounded[1]), -infinity);
  for (int i = 2; i < 5; ++i) EXPECT_TRUE(std::isnan(to_float(rounded[i]))) << i;
}

TEST(KernelValues, SumOfSquaresOfMillionsOfValuesKeepsItsDigits) {
  const auto values = random_values<float>(1'000'003, 8);
  double exact = 0;
  for (const float value : values) exact += static_cast<double>(value) * static_cast<double>(value);
  EXPECT_NEAR(tables().sum_of_squares(values.data(), 1'000'003), exact, 1e-6 * exact);
  EXPECT_EQ(tables().sum_of_squares(values.data(), 0), 0.0);
  std::vector<float> bad(10'000, 1.0F);
  bad[9'999] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(tables().sum_of_squares(bad.data(), 10'000)));
}

TEST(Kernels, ConvertFp16AsTheFunctionsForOneElementDo) {
  std::vector<Fp16> halves(1 << 16);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i].bits = static_cast<std::uint16_t>(i);
  std::vector<float> wide(halves.size());
  const std::int64_t n =
      static_cast<std::int64_t>(halves.size()) - 3;  // a length that is no multiple of a vector
  kernels<Fp16>().to_float(halves.data(), wide.data(), n);
  for (std::int64_t i = 0; i < n; ++i) {
    const float expected = half_to_float(halves[i].bits);
    ASSERT_TRUE(wide[i] == expected || (std::isnan(wide[i]) && std::isnan(expected))) << i;
  }

  // Every exponent and sign, with bits around the one that decides about rounding, NaNs among them.
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 1U << 16; ++high) {
    for (const std::uint32_t low : {0U, 0x0FFFU, 0x1000U, 0x1001U, 0xFFFFU}) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  std::vector<Fp16> rounded(values.size());
  kernels<Fp16>().from_float(values.data(), rounded.data(), static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(rounded[i].bits, float_to_half(values[i])) << values[i] << ", number " << i;
  }
}

}  // namespace
}  // namespace echelon::kernels
