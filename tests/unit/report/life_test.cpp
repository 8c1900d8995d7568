#include "report/record/life.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace echelon::report {
namespace {

std::int64_t sum_of(const Account& account) {
  return std::accumulate(account.parts.begin(), account.parts.end(), std::int64_t{0},
                         [](std::int64_t sum, const Part& part) { return sum + part.per_mille; });
}

double seconds_of(const Account& account, const std::string& name) {
  for (const Part& part : account.parts) {
    if (part.name == name) return part.seconds;
  }
  return 0;
}

Start start(const std::string& job, double began_s, double ended_s,
            std::vector<std::pair<std::string, double>> seconds) {
  return {
      .job = job, .began_s = began_s, .ended_s = ended_s, .end = "stopped", .seconds = std::move(seconds)};
}

TEST(LargestRemainders, SumToTheWhole) {
  EXPECT_EQ(largest_remainders({1, 1, 1}, 1000), (std::vector<std::int64_t>{334, 333, 333}));
  EXPECT_EQ(largest_remainders({2, 1, 0}, 1000), (std::vector<std::int64_t>{667, 333, 0}));
  EXPECT_EQ(largest_remainders({0, 0}, 1000), (std::vector<std::int64_t>{0, 0}));
  EXPECT_TRUE(largest_remainders({}, 1000).empty());
}

TEST(LargestRemainders, AreWithinOneOfTheExactShareForAnyParts) {
  std::mt19937 random(1);
  std::exponential_distribution<double> part(0.001);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> parts(1 + random() % 14);
    for (double& one : parts) one = random() % 5 == 0 ? 0 : part(random);
    const double whole = std::accumulate(parts.begin(), parts.end(), 0.0);
    if (whole == 0) continue;
    const auto shares = largest_remainders(parts, 1000);
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::int64_t{0}), 1000);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      EXPECT_GE(shares[i], 0);
      EXPECT_LT(std::abs(static_cast<double>(shares[i]) - 1000 * parts[i] / whole), 1.0);
    }
  }
}

TEST(Account, SumsToTheAllocatedSeconds) {
  const Account account = account_of({start("", 100, 200, {{"start", 10}, {"train", 80}, {"idle", 10}}),
                                      start("", 300, 350, {{"start", 20}, {"train", 20}, {"validate", 10}})},
                                     {});
  EXPECT_DOUBLE_EQ(account.allocated_s, 150);
  EXPECT_EQ(sum_of(account), 1000);
  EXPECT_EQ(account.good_per_mille(), 667 + 66);
  EXPECT_EQ(account.queued_s, 0) << "without Slurm nobody queues";
}

TEST(Account, QueueTimeIsBetweenStartsOfOneJobAndNoPartOfTheSum) {
  const std::vector<Start> starts{start("7", 100, 200, {{"train", 100}}),
                                  start("7", 260, 300, {{"train", 40}}),
                                  start("8", 1000, 1100, {{"train", 100}})};
  const Account account = account_of(starts, {{"7", 100, 205, 85}, {"7", 260, 300, 0}, {"8", 1000, 1103, 0}});
  EXPECT_DOUBLE_EQ(account.queued_s, 55) << "from the noted end to the next start";
  EXPECT_DOUBLE_EQ(seconds_of(account, kUnrecorded), 5 + 3)
      << "the script held the nodes, no start says for what";
  EXPECT_DOUBLE_EQ(account.allocated_s, 240 + 8);
  EXPECT_EQ(sum_of(account), 1000);
}

TEST(Account, AStartThatReachedNoLedgerIsUnrecordedAndNotQueued) {
  const Account account =
      account_of({start("7", 100, 200, {{"train", 100}}), start("7", 400, 500, {{"train", 100}})},
                 {{"7", 100, 200, 85}, {"7", 250, 280, 7}, {"7", 400, 500, 0}});
  EXPECT_DOUBLE_EQ(seconds_of(account, kUnrecorded), 30);
  EXPECT_DOUBLE_EQ(account.queued_s, 50 + 120);
}

TEST(Account, BetweenStartsInOneAllocationNobodyQueues) {
  Start again = start("7", 210, 300, {{"detect", 5}, {"load", 5}, {"train", 80}});
  again.in_place = true;
  const Account account = account_of({start("7", 100, 200, {{"train", 100}}), again}, {});
  EXPECT_EQ(account.queued_s, 0);
  EXPECT_DOUBLE_EQ(seconds_of(account, kUnrecorded), 10);
  EXPECT_DOUBLE_EQ(seconds_of(account, "detect"), 5) << "any name of goodput.json counts";
  EXPECT_DOUBLE_EQ(account.allocated_s, 200);
}

TEST(Account, SecondsThatAStartDoesNotExplainAreUnrecorded) {
  const Account account = account_of({start("", 100, 200, {{"train", 60}})}, {});
  EXPECT_DOUBLE_EQ(seconds_of(account, kUnrecorded), 40);
  EXPECT_DOUBLE_EQ(account.allocated_s, 100);
}

TEST(Account, OfClocksThatGoBackTheSumIsStillTheWhole) {
  const Account account = account_of(
      {start("7", 500, 600, {{"train", 100}}), start("7", 550, 580, {{"train", 30}})}, {{"7", 700, 100, 0}});
  EXPECT_EQ(sum_of(account), 1000);
  EXPECT_GE(account.queued_s, 0);
}

}  // namespace
}  // namespace echelon::report
