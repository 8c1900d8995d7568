#include "run/metrics.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "base/files/disk.h"
#include "support/faulty_disk.h"
#include "support/matches.h"
#include "support/refusal.h"
#include "support/temp_dir.h"

namespace echelon {
namespace {

class Metrics : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path path() const { return dir_.path() / "metrics.jsonl"; }
  void put(const std::string& text) const { std::ofstream(path(), std::ios::binary) << text; }
  [[nodiscard]] std::string text() const { return fs::read_file(path(), 1 << 20, Code::kUsage); }

 private:
  test::TempDir dir_;
};

TEST_F(Metrics, OneObjectALineWithEveryDigit) {
  MetricsFile file(path(), 0);
  const StepMetrics metrics{.step = 7,
                            .time_s = 1772364600.1254,
                            .loss = 0.1 + 0.2,
                            .lr = 3e-4,
                            .grad_norm = 1.0 / 3,
                            .tokens = 3'000'000'000,
                            .samples = 56,
                            .tokens_per_s = 1e5,
                            .step_time_s = 0.25,
                            .mfu = 0.5,
                            .peak_rss_bytes = 1ULL << 40,
                            .tensor_peak_bytes = 1ULL << 33,
                            .sent_bytes = 4'097,
                            .validation_loss = 2.5,
                            .rouge = RougeScores{0.5, 0.25, 0.375}};
  file.append(metrics);
  file.append({.step = 8});
  const std::string lines = text();
  const auto first = nlohmann::json::parse(lines.substr(0, lines.find('\n')));
  const nlohmann::json expected{{"step", 7},
                                {"loss", 0.1 + 0.2},
                                {"grad_norm", 1.0 / 3},
                                {"mfu", 0.5},
                                {"rouge1", 0.5},
                                {"time", 1772364600.125},
                                {"tokens", 3'000'000'000},
                                {"samples", 56},
                                {"rouge2", 0.25},
                                {"peak_rss_bytes", 1LL << 40},
                                {"tensor_peak_bytes", 1LL << 33},
                                {"tokens_per_s", 1e5},
                                {"sent_bytes", 4'097},
                                {"validation_loss", 2.5},
                                {"rougeL", 0.375}};
  for (const auto& [key, value] : expected.items()) EXPECT_EQ(first[key], value) << key;
  const auto second = nlohmann::json::parse(lines.substr(lines.find('\n') + 1));
  for (const char* absent : {"mfu", "tokens", "tokens_per_s"})
    EXPECT_TRUE(second[absent].is_null()) << absent;
  EXPECT_FALSE(second.contains("validation_loss"));
  EXPECT_FALSE(second.contains("rouge1"));
  EXPECT_EQ(lines.back(), '\n');
}

TEST_F(Metrics, AFullDiskIsNamedAndALineAfterItIsWhole) {
  test::InUse<test::FaultyDisk> disk(
      fs::disk(),
      {{.call = test::DiskCall::kWrite, .nth = 2, .does = test::Fault::Does::kShorten, .bytes = 10},
       {.call = test::DiskCall::kWrite, .nth = 3, .error = ENOSPC}});
  MetricsFile file(path(), 0);
  file.append({.step = 1});
  EXPECT_MENTIONS(test::said_by([&] { file.append({.step = 2}); }), "step 2 is missing",
                  "No space left on device");
  file.append({.step = 3});
  std::istringstream lines(text());
  std::vector<std::int64_t> steps;
  for (std::string line; std::getline(lines, line);) {
    steps.push_back(nlohmann::json::parse(line)["step"].get<std::int64_t>());
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 3}));
}

TEST_F(Metrics, LinesAfterTheResumedStepAreRemoved) {
  put("{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"step\":4}\n");
  MetricsFile(path(), 2).append({.step = 3});
  const std::string lines = text();
  EXPECT_EQ(lines.substr(0, 22), "{\"step\":1}\n{\"step\":2}\n");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3);
  EXPECT_FALSE(test::mentions(lines, "{\"step\":4}"));
}

TEST_F(Metrics, WholeLastLineWithoutItsEndIsCompleted) {
  put("{\"step\":1}\n{\"step\":2}");
  MetricsFile(path(), 5).append({.step = 6});
  EXPECT_EQ(text().substr(0, 22), "{\"step\":1}\n{\"step\":2}\n");
}

TEST_F(Metrics, TornLastLinesAndWhatIsNoMetricsLineAreDropped) {
  const std::string none =
      "\n" + std::string(100, '\0') + "\n[1]\n{\"step\":\"2\"}\n{\"step\":1.5}\nnull\n{\"step\":1}\n";
  for (const std::string& lines : {std::string("{\"step\":1}\n{\"step\":2,\"lo"), none}) {
    put(lines);
    const MetricsFile file(path(), 5);
    EXPECT_EQ(text(), "{\"step\":1}\n") << lines;
  }
}

TEST_F(Metrics, ANewRunStartsEmptyWhateverWasThere) {
  for (const bool anew : {false, true}) {
    if (anew) put("{\"step\":1}\n{\"step\":2}\n");
    const MetricsFile file(path(), 0);
    EXPECT_EQ(text(), "") << anew;
  }
}

TEST_F(Metrics, LinesThatCannotBeReadAreNotReplaced) {
  std::filesystem::create_symlink("/proc/self/mem", path());  // opens, and nothing can be read at its begin
  EXPECT_THROW(MetricsFile(path(), 5), std::exception);
  EXPECT_TRUE(std::filesystem::is_symlink(path()));
}

TEST_F(Metrics, AFolderInTheWayIsNamed) {
  std::filesystem::create_directory(path());
  const std::string said = test::error_of([&] { return MetricsFile(path(), 0); });
  EXPECT_MENTIONS(said, path().string());
}

}  // namespace
}  // namespace echelon
