#include "report/record/metrics_log.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_dir.h"

namespace echelon::report {
namespace {

class MetricsLogTest : public testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(path(), std::ios::app) << text; }
  [[nodiscard]] std::filesystem::path path() const { return folder_.path() / "metrics.jsonl"; }
  test::TempDir folder_;
  MetricsLog log_{path()};
};

TEST_F(MetricsLogTest, ReadsOnlyWhatIsNew) {
  log_.read_on();
  EXPECT_EQ(log_.lines(), 0U) << "no file yet";
  append("{\"step\": 1, \"loss\": 5.5}\n{\"step\": 2, \"lo");
  log_.read_on();
  EXPECT_EQ(log_.lines(), 1U);
  EXPECT_TRUE(log_.faults().torn);
  append("ss\": 4.5}\n");
  log_.read_on();
  EXPECT_FALSE(log_.faults().torn);
  ASSERT_NE(log_.find("loss"), nullptr);
  EXPECT_EQ(log_.find("loss")->count(), 2U);
  EXPECT_EQ(log_.find("loss")->last().y, 4.5);
}

TEST_F(MetricsLogTest, AFileThatWasReplacedIsReadAnew) {
  append("{\"step\": 1, \"loss\": 5}\n{\"step\": 2, \"loss\": 4}\n");
  log_.read_on();
  std::ofstream(folder_.path() / "new") << "{\"step\": 1, \"loss\": 5}\n";
  std::filesystem::rename(folder_.path() / "new", path());
  log_.read_on();
  EXPECT_EQ(log_.lines(), 1U);
  EXPECT_EQ(log_.find("loss")->count(), 1U);
}

TEST_F(MetricsLogTest, AFileWithoutAnEndIsReadInBoundedTime) {
  append("{\"step\": 1, \"loss\": 5}\n");
  constexpr std::uintmax_t kSparse = std::uintmax_t{64} << 30;
  std::filesystem::resize_file(path(), kSparse);
  constexpr std::uint64_t kMost = 3 << 20;
  MetricsLog log(path(), kMost);
  log.read_on();
  log.read_on();
  EXPECT_EQ(log.find("loss")->last().y, 5);
  EXPECT_EQ(log.faults().bytes_left_out, kSparse - kMost);
  EXPECT_FALSE(log.faults().torn) << "it is not known how the file ends";
}

TEST_F(MetricsLogTest, NamesMembersOfObjectsWithDots) {
  append(
      "{\"step\": 1, \"breakdown_s\": {\"compute\": 0.5, \"other\": 0.25}, \"list\": [1, {\"x\": 2}], "
      "\"mfu\": null}\n");
  log_.read_on();
  EXPECT_EQ(log_.names("breakdown_s."),
            (std::vector<std::string>{"breakdown_s.compute", "breakdown_s.other"}));
  EXPECT_EQ(log_.find("list.x"), nullptr);
  EXPECT_EQ(log_.nulls().at("mfu"), 1U);
}

TEST_F(MetricsLogTest, MeansAreOverAllStepsOfALine) {
  // 10 steps of 2 s and 1 of 1 s: 110 tokens in 21 s.
  append(
      "{\"step\": 10, \"step_time_s\": 2, \"tokens_per_s\": 5}\n"
      "{\"step\": 11, \"step_time_s\": 1, \"tokens_per_s\": 10}\n");
  log_.read_on();
  EXPECT_DOUBLE_EQ(log_.find("step_time_s")->mean(), 21.0 / 11);
  EXPECT_DOUBLE_EQ(log_.find("tokens_per_s")->mean(), 110.0 / 21);
}

TEST_F(MetricsLogTest, CountsWhichRankWasLargest) {
  const std::string line = R"(, "spread": {"work_s": {"min": 1, "median": 2, "max": 3, "max_rank": 5}}})";
  append("{\"step\": 1" + line + "\n{\"step\": 2" + line + "\n");
  log_.read_on();
  const LargestRanks& largest = log_.largest_ranks().at("spread.work_s");
  EXPECT_EQ(largest.lines, 2U);
  EXPECT_EQ(largest.by_rank.at(5).lines, 2U);
  EXPECT_DOUBLE_EQ(largest.by_rank.at(5).excess, 3);
}

TEST_F(MetricsLogTest, CountsWhatItLeavesOut) {
  append(
      "no\n[1]\n7\n{\"loss\": 1}\n{\"step\": -1}\n{\"step\": 1.5}\n{\"step\": 1e400}\n{\"step\": 3, "
      "\"time\": 9}\n"
      "{\"step\": 2, \"time\": 8}\n{\"step\": 4} x\n");
  append(std::string(3 << 20, '{') + "\n");
  log_.read_on();
  EXPECT_EQ(log_.faults().unreadable, 6U);
  EXPECT_EQ(log_.faults().without_step, 3U);
  EXPECT_EQ(log_.faults().out_of_order, 1U);
  EXPECT_EQ(log_.faults().clock_back, 1U);
}

TEST_F(MetricsLogTest, KeepsAFewHundredSeriesAndNoMore) {
  std::string line = "{\"step\": 1";
  for (int i = 0; i < 5000; ++i) line += ", \"k" + std::to_string(i) + "\": 1";
  append(line + "}\n");
  log_.read_on();
  EXPECT_EQ(log_.names("k").size(), 600U);
}

}  // namespace
}  // namespace echelon::report
