#include "model/parameter.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"

namespace echelon {
namespace {

std::vector<float> values_of(const Parameter::Part& part, const InitSpec& init, std::uint64_t seed,
                             std::int64_t begin, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count), -7.0F);
  fill_initial(part, init, seed, begin, count, values.data());
  return values;
}

const Parameter::Part kPart{"model.layers.0.mlp.up_proj.weight", {300, 41}};
const InitSpec kNormal{InitSpec::Kind::kNormal, 0.02F};

TEST(Parameter, AnyCutGivesTheSameInitialValues) {
  const auto whole = values_of(kPart, kNormal, 5, 0, kPart.numel());
  for (const std::int64_t step : {1, 2, 7, 64, 4099}) {
    std::vector<float> pieces;
    for (std::int64_t begin = 0; begin < kPart.numel(); begin += step) {
      const auto piece = values_of(kPart, kNormal, 5, begin, std::min(step, kPart.numel() - begin));
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    EXPECT_EQ(pieces, whole) << step;
  }
}

TEST(Parameter, AnyNumberOfThreadsGivesTheValuesOfEachIndex) {
  const Parameter::Part part{"large", {400, 1001}};
  const int before = at::get_num_threads();
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    const auto values = values_of(part, kNormal, 5, 1, part.numel() - 1);
    const std::uint64_t key = stream_key(5, part.name);
    std::size_t different = 0;
    for (std::size_t i = 0; i < values.size(); ++i) different += values[i] != 0.02F * normal_at(key, i + 1);
    EXPECT_EQ(different, 0U) << threads << " threads";
  }
  at::set_num_threads(before);
}

TEST(Parameter, InitialValuesHaveTheAskedMoments) {
  const auto values = values_of(kPart, kNormal, 5, 0, kPart.numel());
  double mean = 0;
  double square = 0;
  for (const float value : values) {
    mean += static_cast<double>(value);
    square += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(mean / n, 0.0, 5 * 0.02 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(square / n), 0.02, 5 * 0.02 / std::sqrt(2 * n));
}

TEST(Parameter, NameAndSeedDecideTheInitialValues) {
  const auto first = values_of(kPart, kNormal, 5, 0, 100);
  EXPECT_EQ(values_of(kPart, kNormal, 5, 0, 100), first);
  EXPECT_NE(values_of(kPart, kNormal, 6, 0, 100), first);
  const Parameter::Part other{"model.layers.1.mlp.up_proj.weight", {300, 41}};
  EXPECT_NE(values_of(other, kNormal, 5, 0, 100), first);
  const Parameter::Part reshaped{kPart.name, {41, 300}};
  EXPECT_EQ(values_of(reshaped, kNormal, 5, 0, 100), first);
}

TEST(Parameter, ConstantsFillExactlyWhatWasAsked) {
  std::vector<float> values(5, -7.0F);
  fill_initial(kPart, {InitSpec::Kind::kConstant, 1.0F}, 5, 17, 3, values.data());
  EXPECT_EQ(values, (std::vector<float>{1.0F, 1.0F, 1.0F, -7.0F, -7.0F}));
}

TEST(Parameter, StackedPartsAddUpAlongTheirRows) {
  const Parameter stacked({{"q", {8, 3}}, {"k", {2, 3}}, {"v", {2, 3}}}, kNormal);
  EXPECT_EQ(stacked.shape(), (std::vector<std::int64_t>{12, 3}));
  EXPECT_EQ(stacked.numel(), 36);
  EXPECT_EQ(stacked.parts().size(), 3U);
  EXPECT_FALSE(stacked.value.defined());
}

}  // namespace
}  // namespace echelon
