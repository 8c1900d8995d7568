#include "liveness/judge.h"

#include <gtest/gtest.h>

namespace echelon {
namespace {

/// Four ranks on two nodes, each in step 7 having issued as many collectives as the others.
class JudgeTest : public testing::Test {
 protected:
  static Activity::Now at_step(std::int64_t step, std::uint64_t issued) {
    Activity::Now now;
    now.step = step;
    now.steps = step;
    now.work_s = 0.1 * static_cast<double>(step);
    now.issued = now.done = issued;
    now.doing = Doing::kBackward;
    return now;
  }
  void all_beat(double time_s, int except = -1) {
    for (int rank = 0; rank < 4; ++rank) {
      if (rank != except) judge_.received(rank, {at_step(7, 100), 0.0002}, time_s);
    }
  }
  Judge judge_{{.silence_s = 5, .stall_s = 60, .straggler_factor = 2}, {"n0", "n0", "n1", "n1"}};
};

using Kind = Finding::Kind;

/// A finding of `kind` about `rank` is made whose text begins so.
void expect_found(const std::optional<Finding>& finding, Kind kind, int rank, const std::string& begin = "") {
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->kind, kind);
  EXPECT_EQ(finding->rank, rank);
  EXPECT_TRUE(finding->text.starts_with(begin)) << finding->text;
}

TEST_F(JudgeTest, RanksThatBeatAreFine) {
  for (double time = 0; time < 100; ++time) {
    all_beat(time);
    EXPECT_FALSE(judge_.look(time + 0.5));
    EXPECT_FALSE(judge_.straggler(time + 0.5));
  }
}

TEST_F(JudgeTest, AConnectionThatBreaksIsADeathNamedAfterAMoment) {
  all_beat(0);
  judge_.ended(3, 1);
  EXPECT_FALSE(judge_.look(1.1));
  const auto finding = judge_.look(1.6);
  expect_found(
      finding, Kind::kEnded, 3,
      "rank 3 (n1) has died: its process ended without reporting an error while in step 7, backward");
  EXPECT_FALSE(finding->node_suspect);
}

TEST_F(JudgeTest, ANodeIsAsItsWorstRank) {
  all_beat(0);
  judge_.received(2, {at_step(6, 90), 0.0002}, 0);
  all_beat(4, 2);
  const auto nodes = judge_.nodes(4.5);
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].host, "n0");
  EXPECT_EQ(nodes[0].ranks, 2);
  EXPECT_DOUBLE_EQ(nodes[0].silent_s, 0.5);
  EXPECT_EQ(nodes[0].step, 7);
  EXPECT_EQ(nodes[0].life, NodeLife::kAlive);
  EXPECT_EQ(nodes[1].life, NodeLife::kSilent);
  EXPECT_DOUBLE_EQ(nodes[1].silent_s, 4.5);
  EXPECT_EQ(nodes[1].step, 6);
  judge_.ended(2, 5);
  EXPECT_EQ(judge_.nodes(5)[1].life, NodeLife::kEnded);
}

TEST_F(JudgeTest, ARankThatSaidGoodbyeMayClose) {
  all_beat(0);
  judge_.left(3);
  judge_.ended(3, 1);
  EXPECT_FALSE(judge_.look(3));
}

TEST_F(JudgeTest, AllProcessesOfANodeTogetherAreTheNode) {
  all_beat(0);
  judge_.ended(2, 1);
  judge_.ended(3, 1.2);
  const auto finding = judge_.look(1.8);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->kind, Finding::Kind::kNode);
  EXPECT_TRUE(finding->node_suspect);
  EXPECT_EQ(finding->text.find("node n1 is lost: its processes (ranks 2, 3) ended at the same moment"), 0u);
}

// MPI's network library ends processes that it cannot connect to the lost node.
TEST_F(JudgeTest, ANodeThatFellSilentBeforeOthersEndedIsTheCause) {
  all_beat(0);
  for (double time = 1; time <= 3; ++time)
    for (const int rank : {0, 1}) judge_.received(rank, {at_step(7, 100)}, time);
  EXPECT_EQ(judge_.silent_node(2), -1);
  EXPECT_EQ(judge_.silent_node(3), 2);
  judge_.ended(1, 3);
  for (double time = 3.5; time <= 5; time += 0.5) {
    EXPECT_FALSE(judge_.look(time));
    judge_.received(0, {at_step(7, 100)}, time);
  }
  expect_found(judge_.look(5.5), Kind::kNode, 2);
  judge_.received(2, {at_step(7, 100)}, 5.6);
  expect_found(judge_.look(5.7), Kind::kEnded, 1);  // the node is there
}

TEST_F(JudgeTest, OneSilentRankIsTheProcessAndAllOfANodeAreTheNode) {
  all_beat(0);
  for (double time = 1; time <= 6; ++time) all_beat(time, 3);
  expect_found(judge_.look(6), Kind::kSilent, 3);
  EXPECT_EQ(judge_.neighbor_of(3, 6, 2.5), 2);
  Judge node({.silence_s = 5, .stall_s = 60, .straggler_factor = 2}, {"n0", "n0", "n1", "n1"});
  for (int rank = 0; rank < 4; ++rank) node.received(rank, {at_step(7, 100)}, 0);
  for (double time = 1; time <= 6; ++time) {
    node.received(0, {at_step(7, 100)}, time);
    node.received(1, {at_step(7, 100)}, time);
  }
  const auto finding = node.look(6);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->kind, Finding::Kind::kNode);
  EXPECT_TRUE(finding->node_suspect);
  EXPECT_EQ(node.neighbor_of(3, 6, 2.5), -1);
}

TEST_F(JudgeTest, TheRankThatOthersWaitForIsNamedAndNotThoseThatWait) {
  Activity::Now waiting = at_step(7, 101);
  waiting.done = 100;
  waiting.under_way_s = 61;
  Activity::Now reading = at_step(7, 100);
  reading.doing = Doing::kReadingData;
  for (const int rank : {0, 1, 3}) judge_.received(rank, {waiting}, 0);
  judge_.received(2, {reading}, 0);
  EXPECT_FALSE(judge_.look(1)) << "a job that was suspended as a whole goes on within a moment";
  expect_found(judge_.look(4.5), Kind::kStalled, 2,
               "rank 2 (n1) has made no progress while 3 ranks have waited for it for 61 s: it is in step 7, "
               "reading data");
}

TEST_F(JudgeTest, SilenceWhileTheJudgeItselfStoodStillIsNone) {
  all_beat(0);
  judge_.stood_still(3600);
  EXPECT_FALSE(judge_.look(3601));
  EXPECT_TRUE(judge_.look(3606));
}

TEST_F(JudgeTest, WhereAllHaveComeNobodyIsAccused) {
  Activity::Now waiting = at_step(7, 101);
  waiting.done = 100;
  waiting.under_way_s = 61;
  for (int rank = 0; rank < 4; ++rank) judge_.received(rank, {waiting}, 0);
  EXPECT_FALSE(judge_.look(1));
  EXPECT_FALSE(judge_.look(4.5));
}

TEST_F(JudgeTest, AStragglerIsNamedAfterTenSlowStepsAndOnceInAWhile) {
  int warnings = 0;
  for (std::int64_t step = 1; step <= 40; ++step) {
    for (int rank = 0; rank < 4; ++rank) {
      Activity::Now now = at_step(step, 100);
      if (rank == 1) now.work_s *= 5;
      judge_.received(rank, {now}, static_cast<double>(step));
    }
    const auto finding = judge_.straggler(static_cast<double>(step));
    if (!finding) continue;
    ++warnings;
    EXPECT_EQ(step, 10);
    expect_found(finding, Kind::kStraggler, 1,
                 "rank 1 (n0) is a straggler: it works 500 ms a step where the median is 100 ms");
  }
  EXPECT_EQ(warnings, 1);
}

TEST(JudgeOfNetworks, ANodeWhoseMessagesTakeTenTimesAsLongIsNamed) {
  Judge judge({.silence_s = 5, .stall_s = 60, .straggler_factor = 2}, {"n0", "n1", "n2", "n3"});
  std::string text;
  for (double time = 1; time <= 12; ++time) {
    for (int rank = 0; rank < 4; ++rank) judge.received(rank, {{}, rank == 2 ? 0.08 : 0.0004}, time);
    if (const auto finding = judge.straggler(time)) text += finding->text;
  }
  EXPECT_EQ(
      text,
      "node n2 has a slow network: a message to n0 and back takes 80 ms, where the median of the nodes is "
      "0.4 ms");
}

TEST_F(JudgeTest, ANodeThatMostOthersWaitForIsNamed) {
  std::string text;
  for (double time = 1; time <= 60; ++time) {
    for (int rank = 0; rank < 4; ++rank) {
      const bool noisy = static_cast<int>(time) % 4 == 0;  // now and then somebody else is late
      judge_.received(
          rank, {at_step(7, 100), 0.0002, rank < 2 ? 2 + rank : 0, rank < 2 && !noisy ? 0.8 : 0.1}, time);
    }
    if (const auto finding = judge_.straggler(time)) text += finding->text;
  }
  EXPECT_EQ(text, "node n1 is a straggler: the other ranks spend 37 % of their time waiting for it");
}

TEST_F(JudgeTest, WhereAllWaitForEachOtherNobodyIsAccused) {
  for (double time = 1; time <= 60; ++time) {
    for (int rank = 0; rank < 4; ++rank)
      judge_.received(rank, {at_step(7, 100), 0.0002, rank < 2 ? 2 + rank : rank - 2, 0.7}, time);
    EXPECT_FALSE(judge_.straggler(time)) << time;
  }
}

TEST_F(JudgeTest, WaitsThatGoRoundAccuseNobody) {
  for (double time = 1; time <= 40; ++time) {
    for (int rank = 0; rank < 4; ++rank)
      judge_.received(rank, {at_step(7, 100), 0.0002, static_cast<int>(time) % 4, 0.9}, time);
    EXPECT_FALSE(judge_.straggler(time)) << time;
  }
}

}  // namespace
}  // namespace echelon
