#include "run/progress.h"

#include <gtest/gtest.h>

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

TEST(Progress, PlainLinesHaveNoTerminalCodes) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress(Progress::Style::kLines, 1, 300);
    progress.step(1, 5.0, 0.5);
    progress.state("validating");
    progress.line(example());
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), describe(example(), 300) + "\n");
}

TEST(Progress, NoneIsSilent) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress(Progress::Style::kNone, 5, 300);
    progress.step(5, 5.0, 0.5);
    progress.state("validating");
    progress.line(example());
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Progress, BarShowsHowFarAndHowLong) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress(Progress::Style::kBar, 1, 300);
    progress.step(150, 5.0, 60.0);
    progress.state("validating");
  }
  const std::string shown = ::testing::internal::GetCapturedStderr();
  EXPECT_MENTIONS(shown, "[############............] 150/300  loss 5.0000  60.00 s/step  ETA 2 h 30 min",
                  "ETA 2 h 30 min  validating");
  EXPECT_EQ(shown.substr(shown.size() - 4), "\r\033[K") << "the bar is wiped at the end";
}

TEST(Progress, BarMakesWayForTheLog) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress(Progress::Style::kBar, 1, 300);
    progress.state("saving step 30");
    log::info("saved step 30");
  }
  const std::string shown = ::testing::internal::GetCapturedStderr();
  EXPECT_MENTIONS(shown, "\r\033[Ksaved step 30\n");
  EXPECT_EQ(shown.substr(shown.size() - 4), "\r\033[K");
}

TEST(Progress, BarSurvivesTheLastStep) {
  ::testing::internal::CaptureStderr();
  { Progress(Progress::Style::kBar, 1, 3).step(3, 1.0, 0.1); }
  EXPECT_MENTIONS(::testing::internal::GetCapturedStderr(), "[########################] 3/3");
}

}  // namespace
}  // namespace echelon
