#include "data/sample_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace echelon {
namespace {

TEST(SampleOrder, IsAPermutationOfEveryEpoch) {
  for (const std::uint64_t size :
       {1U,  2U,  3U,   4U,   5U,    7U,    8U,    9U,    16U,    17U,    63U,    64U,
        65U, 97U, 100U, 256U, 1000U, 1009U, 4096U, 4099U, 65536U, 65537U, 100003U}) {
    const SampleOrder order(size, 7);
    for (const std::uint64_t epoch : {0ULL, 1ULL, 2ULL, 1000ULL, 1ULL << 40}) {
      std::vector<bool> seen(size);
      for (std::uint64_t i = 0; i < size; ++i) {
        const std::uint64_t at = order.at(epoch * size + i);
        ASSERT_LT(at, size);
        ASSERT_FALSE(seen[at]) << size << " " << epoch << " " << i;
        seen[at] = true;
      }
    }
  }
}

TEST(SampleOrder, IsAPermutationOfEverySmallSize) {
  for (std::uint64_t size = 1; size <= 300; ++size) {
    const SampleOrder order(size, size);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < size; ++i) seen.insert(order.at(3 * size + i));
    ASSERT_EQ(seen.size(), size);
    ASSERT_EQ(*seen.rbegin(), size - 1);
  }
}

TEST(SampleOrder, StaysInsideHugeSizes) {
  for (const std::uint64_t size : {(1ULL << 40) + 1, (1ULL << 47) - 1, 1ULL << 48}) {
    const SampleOrder order(size, 1);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 10000; ++i) {
      ASSERT_LT(order.at(size - 1 - i), size);
      seen.insert(order.at(size - 1 - i));
    }
    EXPECT_EQ(seen.size(), 10000U);
  }
}

TEST(SampleOrder, DiffersBySeedAndEpochAndNothingElse) {
  const SampleOrder a(10000, 1);
  const SampleOrder b(10000, 2);
  const SampleOrder a_again(10000, 1);
  int same_seed = 0;
  int same_epoch = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    same_seed += a.at(i) == b.at(i);
    same_epoch += a.at(i) == a.at(10000 + i);
    ASSERT_EQ(a.at(50000 + i), a_again.at(50000 + i));
  }
  EXPECT_LT(same_seed, 10);  // 1 is expected of two random permutations
  EXPECT_LT(same_epoch, 10);
}

TEST(SampleOrder, ReachesEveryOrderOfThree) {
  std::set<std::vector<std::uint64_t>> orders;
  const SampleOrder order(3, 11);
  for (std::uint64_t epoch = 0; epoch < 200; ++epoch) {
    orders.insert({order.at(3 * epoch), order.at(3 * epoch + 1), order.at(3 * epoch + 2)});
  }
  EXPECT_EQ(orders.size(), 6U);
}

TEST(SampleOrder, SpreadsEachIndexEvenly) {
  // Chi-square over the cell that indices 0, 1 and 99 of 100 land in, 20000 epochs: mean 99, deviation 14.
  const SampleOrder order(100, 5);
  for (const std::uint64_t index : {0U, 1U, 99U}) {
    std::vector<double> counts(100);
    for (std::uint64_t epoch = 0; epoch < 20000; ++epoch) counts[order.at(epoch * 100 + index)] += 1;
    double chi = 0;
    for (const double count : counts) chi += (count - 200) * (count - 200) / 200;
    EXPECT_LT(chi, 170);
    EXPECT_GT(chi, 45);
  }
}

TEST(SampleOrder, SeparatesNeighbors) {
  // The mean distance of two random places is a third of the size.
  const SampleOrder order(1 << 20, 3);
  double sum = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    sum += std::abs(static_cast<double>(order.at(i)) - static_cast<double>(order.at(i + 1)));
  }
  EXPECT_NEAR(sum / 10000 / (1 << 20), 1.0 / 3, 0.01);
}

}  // namespace
}  // namespace echelon
