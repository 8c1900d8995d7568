#include "report/watch/view.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/str.h"
#include "support/matches.h"
#include "support/temp_dir.h"

namespace echelon::report {
namespace {

constexpr double kNow_s = 1'700'000'000;  ///< 2023-11-14 22:13:20 UTC

/// The screen of a run of many starts with long numbers, `left_steps` of one second before its end.
std::string screen(int columns, std::int64_t left_steps) {
  const test::TempDir folder;
  std::ofstream(folder.path() / "metrics.jsonl")
      << "{\"step\": 1, \"loss\": 5, \"step_time_s\": 1.0, \"tokens_per_s\": 12345678, \"mfu\": 0.431}\n";
  MetricsLog metrics(folder.path() / "metrics.jsonl");
  metrics.read_on();
  RunRecord run;
  run.name = "long";
  run.state = RunState::kRunning;
  run.step = 100;
  run.steps = 100 + left_steps;
  run.starts.resize(12);
  run.account.allocated_s = 3.6e6;
  run.account.parts = {{"train", 3.5e6, 931}};
  return join(view(run, metrics, kNow_s, {.columns = columns, .rows = 24, .utf8 = false}), "\n");
}

TEST(View, TellsTheTimeOfTheEndOn80Columns) {
  const std::string today = screen(80, 3600);
  EXPECT_MENTIONS(today, "until about 23:13 UTC", "goodput 93.1 %");
  const std::string later = screen(80, 360'000);
  EXPECT_MENTIONS(later, "until about 2023-11-19 02:13 UTC");
}

TEST(View, BreaksWhatDoesNotFitBetweenItsParts) {
  const std::string text = screen(44, 360'000);
  EXPECT_MENTIONS(text, "\ntime    41 d 16 h in 12 starts,\n        goodput 93.1 %,");
  for (const int columns : {20, 30, 60, 80, 200}) {
    std::string line;
    for (std::istringstream lines(screen(columns, 360'000)); std::getline(lines, line);)
      EXPECT_LE(line.size(), static_cast<std::size_t>(columns)) << line;
  }
}

}  // namespace
}  // namespace echelon::report
