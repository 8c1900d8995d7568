#include "run/progress.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/log.h"
#include "support/matches.h"

namespace echelon {
namespace {

StepMetrics example() {
  return {.step = 120,
          .loss = 5.12341,
          .lr = 1.9e-3,
          .grad_norm = 0.8126,
          .tokens_per_s = 12345.6,
          .step_time_s = 0.6612,
          .peak_rss_bytes = (std::uint64_t{1} << 30) * 6 / 5};
}

TEST(Progress, DescribesAStepInOneLine) {
  EXPECT_EQ(describe(example(), 300),
            "step 120/300  loss 5.1234  lr 1.90e-03  grad 0.813  12,345 tok/s  0.66 s/step  rss 1.2 GiB");
}

TEST(Progress, AddsWhatIsKnown) {
  StepMetrics metrics = example();
  metrics.mfu = 0.4567;
  metrics.peak_device_bytes = std::uint64_t{3} << 30;
  metrics.validation_loss = 4.25;
  const std::string line = describe(metrics, 300);
  EXPECT_EQ(line.substr(describe(example(), 300).size()),
            "  mfu 45.7 %  device 3.0 GiB  validation loss 4.2500");
}

/// What a run of 300 steps shows.
std::string shown_by(Progress::Style style, const std::function<void(Progress&)>& run) {
  return test::said_by([&] {
    Progress progress(style, 1, 300);
    run(progress);
  });
}

TEST(Progress, PlainLinesHaveNoTerminalCodesAndNoneIsSilent) {
  const auto run = [](Progress& progress) {
    progress.step(1, 5.0, 0.5);
    progress.state("validating");
    progress.line(example());
  };
  EXPECT_EQ(shown_by(Progress::Style::kLines, run), describe(example(), 300) + "\n");
  EXPECT_EQ(shown_by(Progress::Style::kNone, run), "");
}

TEST(Progress, BarShowsHowFarAndHowLong) {
  const std::string shown = shown_by(Progress::Style::kBar, [](Progress& progress) {
    progress.step(150, 5.0, 60.0);
    progress.state("validating");
  });
  EXPECT_MENTIONS(shown, "[############............] 150/300  loss 5.0000  60.00 s/step  ETA 2 h 30 min",
                  "ETA 2 h 30 min  validating");
  EXPECT_EQ(shown.substr(shown.size() - 4), "\r\033[K") << "the bar is wiped at the end";
}

TEST(Progress, BarMakesWayForTheLog) {
  const std::string shown = shown_by(Progress::Style::kBar, [](Progress& progress) {
    progress.state("saving step 30");
    log::info("saved step 30");
  });
  EXPECT_MENTIONS(shown, "\r\033[Ksaved step 30\n");
  EXPECT_EQ(shown.substr(shown.size() - 4), "\r\033[K");
}

TEST(Progress, BarSurvivesTheLastStep) {
  EXPECT_MENTIONS(shown_by(Progress::Style::kBar, [](Progress& progress) { progress.step(300, 1.0, 0.1); }),
                  "[########################] 300/300");
}

}  // namespace
}  // namespace echelon
