#include "data/tokens/pair_loader.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace echelon {
namespace {

constexpr PairSizes kSizes{.source = 512, .target = 150, .vocabulary = 1000};

TEST(PairLoader, ReadsTheSameSamplesInAnyPortions) {
  const SyntheticPairLoader loader(kSizes, 4);
  const SampleBatch whole = loader.read(10, 6);
  SampleBatch pieces = loader.read(10, 1);
  for (const auto& [first, count] : {std::pair{11, 3}, {14, 2}}) {
    const SampleBatch more = loader.read(first, count);
    EXPECT_EQ(more.first_sample, first);
    pieces.ids.insert(pieces.ids.end(), more.ids.begin(), more.ids.end());
    pieces.lengths.insert(pieces.lengths.end(), more.lengths.begin(), more.lengths.end());
    pieces.targets.insert(pieces.targets.end(), more.targets.begin(), more.targets.end());
    pieces.target_lengths.insert(pieces.target_lengths.end(), more.target_lengths.begin(),
                                 more.target_lengths.end());
  }
  EXPECT_EQ(pieces.ids, whole.ids);
  EXPECT_EQ(pieces.lengths, whole.lengths);
  EXPECT_EQ(pieces.targets, whole.targets);
  EXPECT_EQ(pieces.target_lengths, whole.target_lengths);
  EXPECT_NE(SyntheticPairLoader(kSizes, 5).read(10, 6).ids, whole.ids);
}

TEST(PairLoader, LengthsVaryUpToTheirLimits) {
  const SampleBatch batch = SyntheticPairLoader(kSizes, 4).read(0, 2000);
  const auto count = [](const std::vector<std::int64_t>& lengths, std::int64_t limit) {
    for (const std::int64_t length : lengths) EXPECT_TRUE(length >= 1 && length <= limit) << length;
    return static_cast<double>(std::count(lengths.begin(), lengths.end(), limit)) /
           static_cast<double>(lengths.size());
  };
  EXPECT_NEAR(count(batch.lengths, 512), 0.5, 0.05);
  EXPECT_NEAR(count(batch.target_lengths, 150), 0.19, 0.05);
  PairSizes full = kSizes;
  full.full_length = true;
  const SampleBatch longest = SyntheticPairLoader(full, 4).read(7, 3);
  EXPECT_EQ(longest.lengths, std::vector<std::int64_t>(3, 512));
  EXPECT_EQ(longest.target_lengths, std::vector<std::int64_t>(3, 150));
}

TEST(PairLoader, TargetsAreEveryThirdTokenFromTheEndOfTheirSource) {
  const SampleBatch batch =
      SyntheticPairLoader({.source = 8, .target = 5, .vocabulary = 50, .full_length = true}, 1).read(3, 1);
  const std::vector<std::int64_t>& s = batch.ids;
  EXPECT_EQ(batch.targets, (std::vector<std::int64_t>{s[7], s[4], s[1], s[6], 1}));
  EXPECT_GE(*std::min_element(s.begin(), s.end()), 2);
  EXPECT_LT(*std::max_element(s.begin(), s.end()), 50);
}

TEST(PairLoader, FingerprintTellsWhatChangesTheData) {
  const std::uint32_t one = SyntheticPairLoader(kSizes, 4).fingerprint();
  EXPECT_EQ(SyntheticPairLoader(kSizes, 4).fingerprint(), one);
  EXPECT_NE(SyntheticPairLoader(kSizes, 5).fingerprint(), one);
  PairSizes full = kSizes;
  full.full_length = true;
  EXPECT_NE(SyntheticPairLoader(full, 4).fingerprint(), one);
}

TEST(PairLoader, ImpossibleSizesAreRefused) {
  EXPECT_THROW(SyntheticPairLoader({.source = 0, .target = 5, .vocabulary = 50}, 1), Error);
  EXPECT_THROW(SyntheticPairLoader({.source = 4, .target = 5, .vocabulary = 3}, 1), Error);
  EXPECT_THROW((void)SyntheticPairLoader(kSizes, 1).read(-1, 2), Error);
}

}  // namespace
}  // namespace echelon
