#include "comm/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/half.h"

namespace echelon {
namespace {

class SumScaled : public ::testing::TestWithParam<std::size_t> {};

TEST_P(SumScaled, EqualsThePlainLoopBitForBit) {
  const std::size_t count = GetParam();
  std::mt19937 random(17);
  std::normal_distribution<float> normal(0, 100);
  std::vector<std::vector<float>> sources(3, std::vector<float>(count));
  for (auto& source : sources) {
    for (float& value : source) value = normal(random);
  }
  std::vector<std::vector<std::uint16_t>> narrow(3);
  for (std::size_t n = 0; n < 3; ++n) {
    for (const float value : sources[n]) narrow[n].push_back(float_to_bf16(value));
  }
  for (const bool accumulate : {false, true}) {
    std::vector<float> output(count, 1.5F);
    std::vector<float> from_bf16(count, 1.5F);
    sum_scaled(std::vector<const void*>{sources[0].data(), sources[1].data(), sources[2].data()}, DType::kF32,
               output.data(), count, 0.3F, accumulate);
    sum_scaled(std::vector<const void*>{narrow[0].data(), narrow[1].data(), narrow[2].data()}, DType::kBF16,
               from_bf16.data(), count, 0.3F, accumulate);
    for (std::size_t i = 0; i < count; ++i) {
      const volatile float sum = (sources[0][i] + sources[1][i]) + sources[2][i];
      const volatile float scaled = 0.3F * sum;  // volatile: no fused multiply-add in the test either
      ASSERT_EQ(output[i], accumulate ? 1.5F + scaled : scaled) << i;
      const volatile float narrow_sum =
          (bf16_to_float(narrow[0][i]) + bf16_to_float(narrow[1][i])) + bf16_to_float(narrow[2][i]);
      const volatile float narrow_scaled = 0.3F * narrow_sum;
      ASSERT_EQ(from_bf16[i], accumulate ? 1.5F + narrow_scaled : narrow_scaled) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, SumScaled, ::testing::Values(0, 1, 15, 16, 17, 2047, 2048, 2049, 10000));

TEST(SumScaled, MayWriteOverOneOfItsSources) {
  std::vector<float> first(5000, 2.0F);
  std::vector<float> second(5000, 3.0F);
  sum_scaled(std::vector<const void*>{first.data(), second.data()}, DType::kF32, second.data(), 5000, 1.0F,
             false);
  for (const float value : second) ASSERT_EQ(value, 5.0F);
}

TEST(SumScaled, RefusesOtherTypes) {
  float value = 0;
  EXPECT_THROW(sum_scaled(std::vector<const void*>{&value}, DType::kI64, &value, 1, 1, false), Error);
}

TEST(SumScaled, HalfPrecisionIsSummedInSingle) {
  const std::vector<std::uint16_t> large(2500, 0x7BFF);  // 65504: two of them are infinite in half precision
  const std::vector<std::uint16_t> small(2500, 0x0001);
  std::vector<float> sums(2500, 1.0F);
  sum_scaled(std::vector<const void*>{large.data(), large.data(), small.data()}, DType::kF16, sums.data(),
             sums.size(), 0.5F, true);
  for (const float sum : sums) ASSERT_EQ(sum, 65505.0F);
}

TEST(ReduceInOrder, NotANumberWinsFromEitherSide) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double one = 1;
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
    double result = 0;
    reduce_in_order(std::vector<const void*>{&nan, &one}, DType::kF64, op, &result, 1);
    EXPECT_TRUE(std::isnan(result));
    reduce_in_order(std::vector<const void*>{&one, &nan}, DType::kF64, op, &result, 1);
    EXPECT_TRUE(std::isnan(result));
  }
}

TEST(ReduceInOrder, KeepsIntegersWhole) {
  const std::int64_t big = (std::int64_t{1} << 60) + 1;
  const std::int64_t small = -5;
  std::int64_t result = 0;
  reduce_in_order(std::vector<const void*>{&big, &small}, DType::kI64, ReduceOp::kSum, &result, 1);
  EXPECT_EQ(result, big - 5);
  reduce_in_order(std::vector<const void*>{&big, &small}, DType::kI64, ReduceOp::kMin, &result, 1);
  EXPECT_EQ(result, -5);
}

}  // namespace
}  // namespace echelon
