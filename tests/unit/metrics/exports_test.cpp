#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "metrics/csv.h"
#include "metrics/event_file.h"
#include "metrics/live_exports.h"
#include "metrics/names.h"
#include "metrics/prometheus.h"
#include "support/faulty_disk.h"
#include "support/matches.h"
#include "support/temp_dir.h"

// What TensorBoard's and Prometheus's own readers make of these files is tested in tests/e2e/metrics.py.
namespace echelon::metrics {
namespace {

TEST(MetricNames, AreReadFromTheCollectorsTable) {
  const std::vector<Name>& all = names();
  std::set<std::string> metrics;
  for (const Name& name : all) {
    EXPECT_TRUE(metrics.insert(name.metric).second) << name.metric;
    EXPECT_EQ(name.metric.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), name.metric.npos) << name.metric;
    EXPECT_EQ(name.label.empty(), !name.place.ends_with('/')) << name.place;
    EXPECT_TRUE(name.meaning.ends_with('.')) << name.meaning;
  }
  EXPECT_EQ(all.front().place, "step");
  const auto work = std::find_if(all.begin(), all.end(),
                                 [](const Name& n) { return n.metric == "echelon_rank_work_seconds"; });
  ASSERT_NE(work, all.end());
  EXPECT_EQ(work->place, "spread/work_s/");
  EXPECT_EQ(work->label, "stat");
  EXPECT_EQ(work->words, (std::vector<std::string>{"min", "median", "max"}));
}

Line line_of(const std::string& text) {
  return parse_line(text).value();
}

TEST(Prometheus, NamesOfSourcesAndTasksAreLabels) {
  EXPECT_MENTIONS(
      prometheus_page("r", line_of(R"({"step": 4, "validation_loss": 3, "validation_loss/code": 1.5,)"
                                   R"( "eval/piqa/acc": 0.5})")),
      "echelon_validation_loss{run=\"r\"} 3\n",
      "echelon_source_validation_loss{run=\"r\",source=\"code\"} 1.5\n",
      "echelon_evaluation_score{run=\"r\",score=\"piqa/acc\"} 0.5\n");
}

TEST(Prometheus, AMetricOfSeveralNumbersHasALabel) {
  const std::string page = prometheus_page(
      "a\"b\\", line_of(R"({"step": 4, "unknown": 1, "breakdown_s": {"compute": 0.5, "other": 0},)"
                        R"( "spread": {"work_s": {"min": 1, "max": 2, "max_rank": 7}}})"));
  EXPECT_EQ(
      page,
      "# HELP echelon_step Optimizer steps done.\n# TYPE echelon_step gauge\n"
      "echelon_step{run=\"a\\\"b\\\\\"} 4\n"
      "# HELP echelon_step_part_seconds What a step's time goes into, mean over ranks.\n"
      "# TYPE echelon_step_part_seconds gauge\n"
      "echelon_step_part_seconds{run=\"a\\\"b\\\\\",part=\"compute\"} 0.5\n"
      "echelon_step_part_seconds{run=\"a\\\"b\\\\\",part=\"other\"} 0\n"
      "# HELP echelon_rank_work_seconds Part of a step that does not wait for other ranks, over ranks.\n"
      "# TYPE echelon_rank_work_seconds gauge\n"
      "echelon_rank_work_seconds{run=\"a\\\"b\\\\\",stat=\"max\"} 2\n"
      "echelon_rank_work_seconds{run=\"a\\\"b\\\\\",stat=\"min\"} 1\n"
      "# HELP echelon_slowest_rank Number of the rank that works longest.\n"
      "# TYPE echelon_slowest_rank gauge\n"
      "echelon_slowest_rank{run=\"a\\\"b\\\\\"} 7\n");
}

class Exports : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path source() const { return dir_.path() / "metrics.jsonl"; }
  [[nodiscard]] std::string text(const char* file) const {
    return fs::read_file(dir_.path() / file, 1 << 20, Code::kUsage);
  }
  /// As MetricsFile does it: the line is in metrics.jsonl first.
  void add(LiveExports& exports, const std::string& line) const {
    std::ofstream(source(), std::ios::app) << line << '\n';
    exports.append(line);
  }
  [[nodiscard]] std::vector<std::filesystem::path> event_files() const {
    return fs::list_folder(dir_.path() / "tensorboard", Code::kUsage);
  }
  /// Records of an event file whose checksums are right; "torn" in place of one that is not.
  [[nodiscard]] static std::vector<std::string> records(const std::filesystem::path& file) {
    const auto crc_at = [](const std::string& bytes, std::size_t at) {
      std::uint32_t crc = 0;
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), 4, reinterpret_cast<char*>(&crc));
      return crc;
    };
    const auto masked = [](std::string_view bytes) {
      const std::uint32_t crc = crc32c(bytes);
      return (crc >> 15 | crc << 17) + 0xa282ead8U;
    };
    const std::string all = fs::read_file(file, 1 << 20, Code::kUsage);
    std::vector<std::string> found;
    for (std::size_t at = 0; at < all.size();) {
      std::uint64_t length = 0;
      if (at + 12 > all.size()) return found.emplace_back("torn"), found;
      std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(at), 8, reinterpret_cast<char*>(&length));
      if (length > all.size() || at + 16 + length > all.size()) return found.emplace_back("torn"), found;
      const std::string record = all.substr(at + 12, length);
      EXPECT_EQ(crc_at(all, at + 8), masked(std::string_view(all).substr(at, 8)));
      EXPECT_EQ(crc_at(all, at + 12 + length), masked(record));
      found.push_back(record);
      at += 16 + length;
    }
    return found;
  }

 private:
  test::TempDir dir_;
};

TEST_F(Exports, ANewValueWritesTheTableAnew) {
  LiveExports exports(source(), {.csv = true}, 0);
  add(exports, R"({"step": 1, "loss": 2.5, "zeta": 1})");
  add(exports, R"({"step": 2, "loss": 0.1})");
  EXPECT_EQ(text("metrics.csv"), "step,loss,zeta\n1,2.5,1\n2,0.1,\n");
  add(exports, R"({"step": 3, "time": 5, "loss": 2, "a,\"b": 4})");
  EXPECT_EQ(text("metrics.csv"), "step,time,loss,\"a,\"\"b\",zeta\n1,,2.5,,1\n2,,0.1,,\n3,5,2,4,\n");
}

TEST_F(Exports, TheTableOfAResumedRunHasEachStepOnce) {
  {
    LiveExports exports(source(), {.csv = true}, 0);
    for (const char* line : {R"({"step": 1})", R"({"step": 2})"}) add(exports, line);
  }
  std::ofstream(source()) << "{\"step\": 1}\n";  // as MetricsFile takes back what comes after the checkpoint
  LiveExports exports(source(), {.csv = true}, 1);
  add(exports, R"({"step": 2, "loss": 3})");
  EXPECT_EQ(text("metrics.csv"), "step,loss\n1,\n2,3\n");
}

TEST_F(Exports, AFullDiskIsNoErrorAndTheFilesAreWholeAfterIt) {
  LiveExports exports(source(), {.tensorboard = true, .prometheus = true, .csv = true}, 0);
  add(exports, R"({"step": 1})");
  ASSERT_EQ(event_files().size(), 1U);
  {
    test::InUse<test::FaultyDisk> full(fs::disk(), {{.times = 3, .error = ENOSPC}});
    add(exports, R"({"step": 2})");
  }
  add(exports, R"({"step": 3})");
  EXPECT_EQ(text("metrics.csv"), "step\n1\n2\n3\n");
  EXPECT_MENTIONS(text("metrics.prom"), "} 3\n");
  const auto files = event_files();
  ASSERT_EQ(files.size(), 2U) << "a torn record would hide what comes behind it";
  EXPECT_EQ(records(files[0]).size(), 3U) << "version, start, step 1";
  EXPECT_EQ(records(files[1]).size(), 2U) << "version, step 3";
  EXPECT_LT(files[0], files[1]);
}

TEST_F(Exports, LinesAfterAnExportByHandGoToAFileThatIsReadLater) {
  LiveExports exports(source(), {.tensorboard = true}, 0);
  add(exports, R"({"step": 1})");
  const std::filesystem::path by_hand = EventFile(event_files()[0].parent_path(), 0, 0).path();
  add(exports, R"({"step": 2})");
  add(exports, R"({"step": 3})");
  const auto files = event_files();
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files[1], by_hand);
  EXPECT_EQ(records(files[2]).size(), 4U) << "version, start at step 2, steps 2 and 3";
}

TEST_F(Exports, ALinkInTheWayIsReplacedAndNotWrittenThrough) {
  std::filesystem::create_symlink("target", source().parent_path() / "metrics.csv");
  LiveExports exports(source(), {.csv = true}, 0);
  add(exports, R"({"step": 1})");
  EXPECT_FALSE(std::filesystem::exists(source().parent_path() / "target"));
  EXPECT_FALSE(std::filesystem::is_symlink(source().parent_path() / "metrics.csv"));
}

TEST_F(Exports, NothingIsWrittenUnasked) {
  LiveExports exports(source(), {}, 0);
  add(exports, R"({"step": 1})");
  EXPECT_EQ(fs::list_folder(source().parent_path(), Code::kUsage).size(), 1U);
}

TEST(CsvColumns, HaveAnEnd) {
  CsvColumns columns;
  Line line;
  for (std::size_t i = 0; i <= kMostColumns; ++i) line.values.push_back({std::to_string(i), 0});
  EXPECT_THROW(columns.add(line), Error);
}

}  // namespace
}  // namespace echelon::metrics
