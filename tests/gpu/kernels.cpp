#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "base/half.h"
#include "gpu/device.h"
#include "model/cuda/gpu_kernels.h"
#include "unit/model/reference.h"

// The GPU's kernels beside the CPU's table (which has tests of its own), and AdamW beside plain double
// precision.
namespace echelon::kernels {

inline float to_float(Fp16 value) {
  return half_to_float(value.bits);
}
inline void assign(Fp16& to, double value) {
  to.bits = float_to_half(static_cast<float>(value));
}

}  // namespace echelon::kernels

namespace echelon::test {

template <>
inline constexpr double kRounding<kernels::Fp16> = 1.0 / 2048;

namespace {

using kernels::Bf16;
using kernels::Fp16;

template <class T>
constexpr DType kType = std::is_same_v<T, float>  ? DType::kF32
                        : std::is_same_v<T, Bf16> ? DType::kBF16
                                                  : DType::kF16;

std::size_t size_of_product(std::int64_t a, std::int64_t b) {
  return static_cast<std::size_t>(a * b);
}

template <class T>
class GpuKernels : public ::testing::Test {
 protected:
  void SetUp() override { ECHELON_NEEDS_GPU(); }
};
using Types = ::testing::Types<float, Bf16, Fp16>;
TYPED_TEST_SUITE(GpuKernels, Types);

struct Rows {
  std::int64_t rows;
  std::int64_t n;
  std::size_t shift;
};
/// Whole accesses, odd lengths, odd addresses, more rows than partial sums, rows too long for registers and
/// for shared memory.
const std::vector<Rows> kRows{{1, 5, 0},    {3, 7, 0},    {64, 256, 0}, {64, 256, 1},  {700, 1000, 0},
                              {3, 4096, 0}, {2, 8192, 0}, {2, 9000, 0}, {2, 13000, 0}, {2, 12999, 3}};

TYPED_TEST(GpuKernels, RmsNormAndItsGradientsMatchTheCpu) {
  using T = TypeParam;
  for (const auto& [rows, n, shift] : kRows) {
    SCOPED_TRACE(testing::Message() << rows << " x " << n << " + " << shift);
    const NormRounding rounding = rows % 2 == 0 ? NormRounding::kTwice
                                  : n % 2 == 0  ? NormRounding::kOnce
                                                : NormRounding::kOncePlusOne;
    const auto x = random_values<T>(rows * n, 1);
    const auto w = random_values<T>(n, 2);
    const auto dy = random_values<T>(rows * n, 3);
    const auto added = random_values<T>(rows * n, 4);
    const auto dsum = random_values<T>(rows * n, 5);
    std::vector<T> sum(x.size());
    std::vector<T> y(x.size());
    std::vector<T> dx(x.size());
    std::vector<float> inv(static_cast<std::size_t>(rows));
    std::vector<float> dw(static_cast<std::size_t>(n));
    kernels::kernels<T>().rms_norm(x.data(), added.data(), sum.data(), w.data(), y.data(), inv.data(),
                                   {rows, n}, 1e-5F, rounding);
    kernels::kernels<T>().rms_norm_backward(dy.data(), dsum.data(), sum.data(), w.data(), inv.data(),
                                            dx.data(), dw.data(), {rows, n}, rounding);
    const OnDevice<T> xs(x, shift);
    const OnDevice<T> addeds(added, shift);
    const OnDevice<T> sums(std::vector<T>(x.size()), shift);
    const OnDevice<T> ws(w, shift);
    const OnDevice<T> dys(dy, shift);
    const OnDevice<T> dsums(dsum, shift);
    const OnDevice<T> ys(std::vector<T>(x.size()), shift);
    const OnDevice<T> dxs(std::vector<T>(x.size()), shift);
    const OnDevice<float> invs(std::vector<float>(inv.size()));
    const OnDevice<float> dws(std::vector<float>(dw.size(), NAN));
    const OnDevice<float> partial(std::vector<float>(size_of_product(gpu::rms_norm_partials(rows), n), NAN));
    const auto forward = [&](const T* input, const T* more, T* total) {
      ASSERT_EQ(gpu::rms_norm(kType<T>, input, more, total, ws.data(), ys.data(), invs.data(), rows, n, 1e-5F,
                              rounding, nullptr),
                cudaSuccess);
    };
    const auto backward = [&](const T* more) {
      ASSERT_EQ(gpu::rms_norm_backward(kType<T>, dys.data(), more, sums.data(), ws.data(), invs.data(),
                                       dxs.data(), dws.data(), partial.data(), rows, n, rounding, nullptr),
                cudaSuccess);
    };
    forward(xs.data(), addeds.data(), sums.data());
    EXPECT_TRUE(same_bits(sums.values(), sum));
    const auto whole = ys.values();
    forward(sums.data(), nullptr, nullptr);
    EXPECT_TRUE(same_bits(ys.values(), whole)) << "the norm is not that of the rounded sum";
    backward(dsums.data());
    expect_close(ys.values(), doubles(y));
    expect_close(invs.values(), doubles(inv), 1e-5);
    expect_close(dxs.values(), doubles(dx), 4 * kRounding<T>);
    const auto first = dws.values();
    // The last bit of 1 / rms decides where a normalized value is rounded to.
    expect_close(first, doubles(dw),
                 rounding == NormRounding::kTwice ? std::max(1e-4, 2 * kRounding<T>) : 1e-4);
    backward(nullptr);
    EXPECT_TRUE(same_bits(dws.values(), first)) << "the weight's gradient does not repeat";
    std::vector<T> alone(x.size());
    kernels::kernels<T>().rms_norm_backward(dy.data(), nullptr, sum.data(), w.data(), inv.data(),
                                            alone.data(), nullptr, {rows, n}, rounding);
    expect_close(dxs.values(), doubles(alone), 4 * kRounding<T>);
  }
}

TYPED_TEST(GpuKernels, SwiGluAndItsGradientMatchTheCpu) {
  using T = TypeParam;
  for (const auto& [rows, n, shift] : kRows) {
    SCOPED_TRACE(testing::Message() << rows << " x " << n << " + " << shift);
    const auto gate_up = random_values<T>(rows * 2 * n, 1, 3.0);
    const auto dout = random_values<T>(rows * n, 2);
    std::vector<T> result(dout.size());
    std::vector<T> dgate_up(gate_up.size());
    kernels::kernels<T>().swiglu(gate_up.data(), result.data(), rows, n);
    kernels::kernels<T>().swiglu_backward(gate_up.data(), dout.data(), dgate_up.data(), rows, n);
    const OnDevice<T> in(gate_up, shift);
    const OnDevice<T> out(std::vector<T>(result.size()), shift);
    const OnDevice<T> din(std::vector<T>(gate_up.size()), shift);
    const OnDevice<T> d(dout, shift);
    ASSERT_EQ(gpu::swiglu(kType<T>, in.data(), out.data(), rows, n, nullptr), cudaSuccess);
    ASSERT_EQ(gpu::swiglu_backward(kType<T>, in.data(), d.data(), din.data(), rows, n, nullptr), cudaSuccess);
    expect_close(out.values(), doubles(result), 4 * kRounding<T>);
    expect_close(din.values(), doubles(dgate_up), 4 * kRounding<T>);
  }
}

template <class T>
void check_rope(const kernels::QkvShape& s, std::int64_t turned, bool token_major) {
  const std::int64_t batch = 2;
  const std::int64_t rows = batch * s.seq_len;
  const std::int64_t width = (s.heads + 2 * s.kv_heads) * s.head_dim;
  const auto qkv = random_values<T>(rows * width, 1);
  const auto cos_sin = random_values<float>(s.seq_len * turned, 2);
  const std::int64_t per_q = s.heads * s.seq_len * s.head_dim;
  const std::int64_t per_kv = s.kv_heads * s.seq_len * s.head_dim;
  std::vector<T> q(size_of_product(batch, per_q));
  std::vector<T> k(size_of_product(batch, per_kv));
  std::vector<T> v(k.size());
  std::vector<T> merged(qkv.size());
  std::vector<std::int64_t> places(static_cast<std::size_t>(s.seq_len));
  std::iota(places.begin(), places.end(), 0);
  const kernels::RowAngles turns{cos_sin.data(), places.data(), turned};
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t first = b * s.seq_len * width;
    kernels::kernels<T>().rope_split(qkv.data() + first, q.data() + b * per_q, k.data() + b * per_kv,
                                     v.data() + b * per_kv, turns, 0, s.seq_len, s);
    kernels::kernels<T>().rope_merge(merged.data() + first, q.data() + b * per_q, k.data() + b * per_kv,
                                     v.data() + b * per_kv, turns, 0, s.seq_len, s);
  }
  const auto heads_of = [&](T* data, std::int64_t heads) {
    const std::int64_t d = s.head_dim;
    return token_major ? gpu::Heads{data, heads * s.seq_len * d, d, heads * d}
                       : gpu::Heads{data, heads * s.seq_len * d, s.seq_len * d, d};
  };
  /// The CPU's order, [batch, heads, T, d].
  const auto ordered = [&](const std::vector<T>& values, std::int64_t heads) {
    if (!token_major) return values;
    std::vector<T> result(values.size());
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i) {
      const std::int64_t e = i % s.head_dim;
      const std::int64_t h = i / s.head_dim % heads;
      const std::int64_t t = i / s.head_dim / heads % s.seq_len;
      const std::int64_t b = i / s.head_dim / heads / s.seq_len;
      result[static_cast<std::size_t>(((b * heads + h) * s.seq_len + t) * s.head_dim + e)] =
          values[static_cast<std::size_t>(i)];
    }
    return result;
  };
  const OnDevice<T> rows_in(qkv);
  const OnDevice<T> rows_out(std::vector<T>(qkv.size()));
  const OnDevice<float> angles(cos_sin);
  const OnDevice<T> qs(std::vector<T>(q.size()));
  const OnDevice<T> ks(std::vector<T>(k.size()));
  const OnDevice<T> vs(std::vector<T>(v.size()));
  const gpu::Heads qh = heads_of(qs.data(), s.heads);
  const gpu::Heads kh = heads_of(ks.data(), s.kv_heads);
  const gpu::Heads vh = heads_of(vs.data(), s.kv_heads);
  ASSERT_EQ(gpu::rope_split(kType<T>, rows_in.data(), qh, kh, vh, angles.data(), turned, rows, s, nullptr),
            cudaSuccess);
  ASSERT_EQ(gpu::rope_merge(kType<T>, rows_out.data(), qh, kh, vh, angles.data(), turned, rows, s, nullptr),
            cudaSuccess);
  expect_close(ordered(qs.values(), s.heads), doubles(q));
  expect_close(ordered(ks.values(), s.kv_heads), doubles(k));
  EXPECT_TRUE(same_bits(ordered(vs.values(), s.kv_heads), v));
  expect_close(rows_out.values(), doubles(merged), 6 * kRounding<T>);  // rounded twice
}

TYPED_TEST(GpuKernels, RopeSplitAndMergeMatchTheCpuInAnyLayout) {
  for (const bool token_major : {false, true}) {
    for (const auto& [head_dim, turned] : std::initializer_list<std::pair<std::int64_t, std::int64_t>>{
             {2, 2}, {6, 6}, {16, 16}, {128, 128}, {6, 2}, {128, 96}, {64, 16}}) {
      SCOPED_TRACE(testing::Message() << head_dim << ", " << turned << " of them turn"
                                      << (token_major ? ", by token" : ", by head"));
      check_rope<TypeParam>({5, 6, 2, head_dim}, turned, token_major);
    }
  }
}

TYPED_TEST(GpuKernels, CrossEntropyAndItsGradientMatchTheCpu) {
  using T = TypeParam;
  // The last one is longer than what a block keeps, and begins at any address but for the first row.
  for (const std::int64_t n : {1, 7, 1000, 32000, 50257, 128259}) {
    SCOPED_TRACE(n);
    const std::int64_t rows = 5;
    const auto logits = random_values<T>(rows * n, 1, 4.0);
    const std::vector<std::int64_t> targets{0, n - 1, -100, n / 2, n / 3};
    auto gradient = logits;
    std::vector<float> losses(targets.size());
    const double factor = 0.25;
    kernels::kernels<T>().cross_entropy(gradient.data(), rows, n, targets.data(), &factor, losses.data());
    const OnDevice<T> in(logits);
    const OnDevice<std::int64_t> chosen(targets);
    const OnDevice<float> out(std::vector<float>(losses.size(), NAN));
    ASSERT_EQ(gpu::cross_entropy(kType<T>, in.data(), chosen.data(), out.data(), rows, n, nullptr, nullptr),
              cudaSuccess);
    expect_close(out.values(), doubles(losses), 1e-4);
    EXPECT_TRUE(same_bits(in.values(), logits)) << "changed without being asked for gradients";
    const float scale = 0.25F;
    ASSERT_EQ(gpu::cross_entropy(kType<T>, in.data(), chosen.data(), out.data(), rows, n, &scale, nullptr),
              cudaSuccess);
    expect_close(out.values(), doubles(losses), 1e-4);
    expect_close(in.values(), doubles(gradient), 4 * kRounding<T>);
  }
}

TYPED_TEST(GpuKernels, CrossEntropyOfATargetPastTheEndOrOfNotANumberIsNotANumber) {
  using T = TypeParam;
  auto logits = random_values<T>(3 * 100, 1);
  assign(logits[150], NAN);
  const OnDevice<T> in(logits);
  const OnDevice<std::int64_t> targets(std::vector<std::int64_t>{100, 5, 5});
  const OnDevice<float> out(std::vector<float>(3));
  ASSERT_EQ(gpu::cross_entropy(kType<T>, in.data(), targets.data(), out.data(), 3, 100, nullptr, nullptr),
            cudaSuccess);
  const auto losses = out.values();
  EXPECT_TRUE(std::isnan(losses[0]));
  EXPECT_TRUE(std::isnan(losses[1]));
  EXPECT_TRUE(std::isfinite(losses[2]));
}

TYPED_TEST(GpuKernels, DropoutZeroesWhatTheCpuDoes) {
  using T = TypeParam;
  for (const auto& [rows, n, shift] : kRows) {
    SCOPED_TRACE(testing::Message() << rows << " x " << n << " + " << shift);
    const auto x = random_values<T>(rows * n, 1);
    std::vector<std::int64_t> samples(static_cast<std::size_t>(rows));
    std::vector<std::int64_t> places(samples.size());
    std::vector<T> expected(x.size());
    for (std::int64_t r = 0; r < rows; ++r) {
      samples[static_cast<std::size_t>(r)] = 1000 + r / 3;
      places[static_cast<std::size_t>(r)] = r % 3;
    }
    kernels::kernels<T>().dropout(x.data(), expected.data(), rows, n,
                                  {77, 20000, 1.44F, samples.data(), places.data()}, false);
    const OnDevice<T> in(x, shift);
    const OnDevice<T> out(std::vector<T>(x.size()), shift);
    const OnDevice<std::int64_t> sample(samples);
    const OnDevice<std::int64_t> place(places);
    ASSERT_EQ(gpu::dropout(kType<T>, in.data(), out.data(), rows, n,
                           {77, 20000, 1.44F, sample.data(), place.data()}, nullptr),
              cudaSuccess);
    EXPECT_TRUE(same_bits(out.values(), expected));
  }
}

TYPED_TEST(GpuKernels, CastRoundsAsTheCpuDoes) {
  using T = TypeParam;
  for (const std::size_t shift : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) {
    auto from = random_values<float>(100003, 1);
    const float infinity = std::numeric_limits<float>::infinity();
    const float special[] = {0.0F,  -0.0F,    infinity, -infinity,   1e-7F,
                             3e-5F, 65519.0F, 65520.0F, 1.00390625F, 1e38F};
    std::copy(std::begin(special), std::end(special), from.begin());
    std::vector<T> expected(from.size());
    kernels::kernels<T>().from_float(from.data(), expected.data(), static_cast<std::int64_t>(from.size()));
    const OnDevice<float> in(from, shift);
    const OnDevice<T> out(std::vector<T>(from.size()), shift);
    ASSERT_EQ(gpu::cast(in.data(), kType<T>, out.data(), static_cast<std::int64_t>(from.size()), nullptr),
              cudaSuccess);
    EXPECT_TRUE(same_bits(out.values(), expected)) << shift;
  }
}

class GpuVectors : public ::testing::Test {
 protected:
  void SetUp() override { ECHELON_NEEDS_GPU(); }
};

TEST_F(GpuVectors, SumOfSquaresIsThatOfDoublePrecisionAndRepeats) {
  for (const std::int64_t n : {0, 1, 3, 1000, 500'011}) {
    for (const std::size_t shift : {std::size_t{0}, std::size_t{1}}) {
      const auto values = random_values<float>(n, 1);
      double expected = 0;
      for (const float value : values) expected += static_cast<double>(value) * static_cast<double>(value);
      const OnDevice<float> in(values, shift);
      const OnDevice<double> partial(std::vector<double>(gpu::kSquaresPartials, NAN));
      const OnDevice<double> result(std::vector<double>(1, NAN));
      ASSERT_EQ(gpu::sum_of_squares(in.data(), n, partial.data(), result.data(), nullptr), cudaSuccess);
      const auto first = result.values();
      EXPECT_NEAR(first[0], expected, 1e-6 * expected) << n;
      ASSERT_EQ(gpu::sum_of_squares(in.data(), n, partial.data(), result.data(), nullptr), cudaSuccess);
      EXPECT_TRUE(same_bits(result.values(), first)) << n;
    }
  }
}

TEST_F(GpuVectors, SumOfSquaresOfAnInfinityIsNotFinite) {
  std::vector<float> values(5000, 1.0F);
  values[4321] = std::numeric_limits<float>::infinity();
  const OnDevice<float> in(values);
  const OnDevice<double> partial(std::vector<double>(gpu::kSquaresPartials));
  const OnDevice<double> result(std::vector<double>(1));
  ASSERT_EQ(gpu::sum_of_squares(in.data(), 5000, partial.data(), result.data(), nullptr), cudaSuccess);
  EXPECT_FALSE(std::isfinite(result.values()[0]));
}

TEST_F(GpuVectors, AdamWMatchesDoublePrecisionOverSteps) {
  const std::int64_t n = 100'003;
  for (const auto& shifts : {std::array<std::size_t, 4>{0, 0, 0, 0}, {3, 3, 3, 3}, {0, 1, 2, 3}}) {
    const auto w = random_values<float>(n, 1);
    std::vector<double> weight = doubles(w);
    std::vector<double> m(weight.size());
    std::vector<double> v(weight.size());
    const OnDevice<float> ws(w, shifts[0]);
    const OnDevice<float> ms(std::vector<float>(w.size()), shifts[2]);
    const OnDevice<float> vs(std::vector<float>(w.size()), shifts[3]);
    for (int number = 1; number <= 3; ++number) {
      const auto g = random_values<float>(n, 10U + static_cast<unsigned>(number));
      const OnDevice<float> gs(g, shifts[1]);
      const kernels::AdamWValues step{number, 1e-3, 0.9, 0.95, 1e-8, 0.1, 0.5};
      ASSERT_EQ(gpu::adamw(step, ws.data(), gs.data(), ms.data(), vs.data(), n, nullptr), cudaSuccess);
      EXPECT_TRUE(same_bits(gs.values(), g)) << "the gradient is only read";
      for (std::size_t i = 0; i < weight.size(); ++i) {
        const double gradient = 0.5 * static_cast<double>(g[i]);
        weight[i] -= 1e-3 * 0.1 * weight[i];
        m[i] = 0.9 * m[i] + 0.1 * gradient;
        v[i] = 0.95 * v[i] + 0.05 * gradient * gradient;
        weight[i] -= 1e-3 / (1 - std::pow(0.9, number)) * m[i] /
                     (std::sqrt(v[i] / (1 - std::pow(0.95, number))) + 1e-8);
      }
    }
    expect_close(ws.values(), weight, 1e-5);
    expect_close(ms.values(), m, 1e-5);
    expect_close(vs.values(), v, 1e-5);
  }
}

TEST_F(GpuVectors, OtherTypesAreRefused) {
  const OnDevice<float> any(std::vector<float>(8));
  EXPECT_EQ(gpu::cast(any.data(), DType::kF64, any.data(), 4, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(gpu::swiglu(DType::kI64, any.data(), any.data(), 1, 1, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace echelon::test
