#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "app/launcher/launch.h"
#include "support/matches.h"
#include "support/places.h"
#include "support/temp_dir.h"

// What the ranks of a job report when one of them (the last) does something else, comes late or dies.
namespace echelon {
namespace {

/// Of an operation: much longer than even a busy machine needs for what must not wait for it.
constexpr double kDeadlineS = 30;

struct Report {
  double seconds = -1;
  int code = -1;
  std::string text;
  std::string next_text;
  double next_seconds = -1;
};

class CommFailures : public ::testing::TestWithParam<int> {
 protected:
  /// Starts the ranks; returns the launcher's exit code.
  int run(const std::string& scenario, double deadline_s = kDeadlineS) {
    return app::launch_local_ranks(size(), {test::program("comm_failure_rank"), folder_.path().string(),
                                            scenario, std::to_string(deadline_s)});
  }
  [[nodiscard]] int size() const { return GetParam(); }
  [[nodiscard]] Report report_of(int rank) const {
    Report report;
    std::ifstream file(folder_.path() / ("rank-" + std::to_string(rank)));
    std::string line;
    if (std::getline(file, line)) report.seconds = std::atof(line.c_str());
    if (std::getline(file, line)) report.code = std::atoi(line.c_str());
    std::getline(file, report.text);
    std::getline(file, report.next_text);
    if (std::getline(file, line)) report.next_seconds = std::atof(line.c_str());
    return report;
  }
  void expect_peer_error(const Report& report, const std::vector<std::string>& words) const {
    EXPECT_EQ(report.code, 7) << report.text;
    for (const std::string& word : words)
      EXPECT_MENTIONS(report.text, word) << word << " in: " << report.text;
    EXPECT_EQ(report.next_text, report.text);
    EXPECT_LT(report.next_seconds, kDeadlineS);
  }
  [[nodiscard]] std::string last() const { return "rank " + std::to_string(size() - 1) + " ("; }

 private:
  test::TempDir folder_;
};

TEST_P(CommFailures, DifferentOperationsAreNamedOnBothSides) {
  EXPECT_EQ(run("other-operation"), 7);
  for (int rank = 0; rank < size(); ++rank) {
    expect_peer_error(report_of(rank), {"all-gather 'layers.3' 65536 x fp32",
                                        "reduce-scatter 'layers.3' 65536 x fp32", "group 'world'", last()});
    EXPECT_LT(report_of(rank).seconds, kDeadlineS);
  }
}

TEST_P(CommFailures, DifferentCountsAreNamed) {
  EXPECT_EQ(run("other-count"), 7);
  for (int rank = 0; rank < size(); ++rank) {
    expect_peer_error(report_of(rank),
                      {"all-gather 'layers.3' 65535 x fp32", "all-gather 'layers.3' 65536 x fp32"});
  }
}

TEST_P(CommFailures, DifferentLabelsAreNamed) {
  EXPECT_EQ(run("other-label"), 7);
  for (int rank = 0; rank < size(); ++rank)
    expect_peer_error(report_of(rank), {"'end of epoch'", "'end of step'"});
}

TEST_P(CommFailures, AnAbsentRankIsNamedAtTheDeadline) {
  EXPECT_EQ(run("absent", 2), 7);
  for (int rank = 0; rank + 1 < size(); ++rank) {
    expect_peer_error(report_of(rank),
                      {"all-gather 'layers.3' 65536 x fp32 (operation #1 of group 'world', 262144 bytes)",
                       "still not arrived: " + last()});
    EXPECT_GE(report_of(rank).seconds, 2.0);
  }
}

TEST_P(CommFailures, AKilledRankIsNoticedBeforeTheDeadline) {
  EXPECT_EQ(run("killed"), 7);
  for (int rank = 0; rank + 1 < size(); ++rank) {
    expect_peer_error(report_of(rank), {last(), "has ended without taking part in all-gather"});
    EXPECT_LT(report_of(rank).seconds, kDeadlineS);
  }
}

TEST_P(CommFailures, ARankKilledAtWorkIsNoticedToo) {
  EXPECT_EQ(run("killed-at-work"), 7);
  for (int rank = 0; rank + 1 < size(); ++rank) {
    expect_peer_error(report_of(rank), {"all-gather"});
    EXPECT_LT(report_of(rank).seconds, kDeadlineS);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, CommFailures, ::testing::Values(2, 3));

}  // namespace
}  // namespace echelon
