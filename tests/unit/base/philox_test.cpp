#include "base/philox.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/normals.h"

namespace echelon {
namespace {

using Words = std::array<std::uint32_t, 4>;

// kat_vectors of Random123 1.14.0, lines "philox4x32 10"; there the key and counter are lists of 32-bit
// words.
TEST(Philox, KnowsTheVectorsOfRandom123) {
  EXPECT_EQ(philox4x32(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32(~0ULL, ~0ULL, ~0ULL), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32(0x299f31d0'a4093822ULL, 0x85a308d3'243f6a88ULL, 0x03707344'13198a2eULL),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, StreamsDifferBySeedAndName) {
  std::set<std::uint64_t> keys;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (const char* name : {"", "a", "b", "ab", "model.layers.1", "model.layers.11"})
      keys.insert(stream_key(seed, name));
  }
  EXPECT_EQ(keys.size(), 60U);
  EXPECT_EQ(stream_key(3, "a"), stream_key(3, std::string("a")));
}

TEST(Philox, NormalValuesHaveTheirMomentsAndQuantiles) {
  const std::uint64_t key = stream_key(1, "test");
  constexpr int kCount = 200'000;
  double moment[5] = {};
  int within_one = 0;
  double neighbors = 0;  // the two values of one Box-Muller pair must be independent too
  for (int i = 0; i < kCount; ++i) {
    const auto value = static_cast<double>(normal_at(key, static_cast<std::uint64_t>(i)));
    for (int power = 1; power <= 4; ++power) moment[power] += std::pow(value, power) / kCount;
    within_one += std::abs(value) < 1.0 ? 1 : 0;
    neighbors += value * static_cast<double>(normal_at(key, static_cast<std::uint64_t>(i) ^ 1U)) / kCount;
  }
  // Five standard errors of each estimate.
  EXPECT_NEAR(moment[1], 0.0, 5 * std::sqrt(1.0 / kCount));
  EXPECT_NEAR(moment[2], 1.0, 5 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(moment[3], 0.0, 5 * std::sqrt(15.0 / kCount));
  EXPECT_NEAR(moment[4], 3.0, 5 * std::sqrt(96.0 / kCount));
  EXPECT_NEAR(within_one / static_cast<double>(kCount), 0.682689, 5 * std::sqrt(0.2166 / kCount));
  EXPECT_NEAR(neighbors, 0.0, 5 * std::sqrt(2.0 / kCount));
}

TEST(Philox, NormalValuesAreFiniteForEveryIndex) {
  for (std::uint64_t index = 0; index < 100'000; ++index) {
    ASSERT_TRUE(std::isfinite(normal_at(index, ~index)));
    ASSERT_TRUE(std::isfinite(normal_at(0, index << 40)));
  }
}

TEST(Philox, ManyNormalValuesAreThoseOfOneAtATime) {
  std::vector<float> values(1'000'003);
  for (const std::uint64_t key : {stream_key(1, "test"), ~std::uint64_t{0}}) {
    for (const std::uint64_t begin : {std::uint64_t{0}, std::uint64_t{12'345'679}, std::uint64_t{1} << 40}) {
      fill_normals(key, begin, values);
      std::size_t different = 0;
      for (std::size_t i = 0; i < values.size(); ++i)
        different += std::bit_cast<std::uint32_t>(values[i]) !=
                     std::bit_cast<std::uint32_t>(normal_at(key, begin + i));
      EXPECT_EQ(different, 0U) << "key " << key << " from " << begin;
    }
  }
}

TEST(Philox, AnyStretchOfNormalValuesIsFilledAndNothingBesideIt) {
  const std::uint64_t key = stream_key(2, "test");
  for (const std::size_t size : {0U, 1U, 2U, 511U, 512U, 513U, 1025U}) {
    for (const std::uint64_t begin : {0U, 1U, 510U, 511U}) {
      std::vector<float> values(size + 2, 77.0F);
      fill_normals(key, begin, std::span(values).subspan(1, size));
      EXPECT_EQ(values.front(), 77.0F);
      EXPECT_EQ(values.back(), 77.0F);
      for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(values[i + 1], normal_at(key, begin + i));
    }
  }
}

TEST(Philox, UniformValuesFillTheUnitInterval) {
  const std::uint64_t key = stream_key(1, "test");
  constexpr int kCount = 100'000;
  double mean = 0;
  double square = 0;
  for (int i = 0; i < kCount; ++i) {
    const auto value = static_cast<double>(uniform_at(key, static_cast<std::uint64_t>(i)));
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    mean += value / kCount;
    square += value * value / kCount;
  }
  EXPECT_NEAR(mean, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(square, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kCount));
}

}  // namespace
}  // namespace echelon
