#include "train/schedule.h"

#include <gtest/gtest.h>

namespace echelon {
namespace {

const OptimOptions kOptim{.lr = 2e-3};

TEST(Schedule, ConstantStaysAtLr) {
  for (const std::int64_t step : {1, 2, 500, 1000})
    EXPECT_EQ(learning_rate(kOptim, {.kind = "constant"}, step, 1000), 2e-3);
}

// torch.optim.lr_scheduler: SequentialLR([LinearLR(start_factor=0.1, total_iters=4),
// CosineAnnealingLR(T_max=8, eta_min=2e-4)], milestones=[4]) on lr 2e-3.
TEST(Schedule, WarmupCosineIsPyTorchs) {
  const double expected[] = {0.0002,
                             0.00065,
                             0.0011,
                             0.00155,
                             0.002,
                             0.0019314915792601579,
                             0.0017363961030678928,
                             0.001444415089128581,
                             0.0011,
                             0.0007555849108714191,
                             0.0004636038969321072,
                             0.0002685084207398422};
  const ScheduleOptions schedule{.warmup_steps = 4, .warmup_start_factor = 0.1, .min_lr = 2e-4};
  for (int i = 0; i < 12; ++i)
    EXPECT_NEAR(learning_rate(kOptim, schedule, i + 1, 12), expected[i], 1e-12) << "step " << i + 1;
}

TEST(Schedule, WithoutWarmupTheFirstStepHasTheFullRate) {
  EXPECT_EQ(learning_rate(kOptim, {.warmup_steps = 0}, 1, 10), 2e-3);
}

TEST(Schedule, WarmupAsLongAsTheRunNeverDividesByZero) {
  const ScheduleOptions schedule{.warmup_steps = 10, .warmup_start_factor = 0.0};
  for (std::int64_t step = 1; step <= 10; ++step) {
    EXPECT_NEAR(learning_rate(kOptim, schedule, step, 10), 2e-4 * static_cast<double>(step - 1), 1e-12);
  }
}

TEST(Schedule, NeverLeavesItsBounds) {
  const ScheduleOptions schedule{.warmup_steps = 37, .warmup_start_factor = 0.5, .min_lr = 1e-4};
  double before = 1.0;
  for (std::int64_t step = 1; step <= 1000; ++step) {
    const double lr = learning_rate(kOptim, schedule, step, 1000);
    EXPECT_GE(lr, 1e-4);
    EXPECT_LE(lr, 2e-3);
    if (step > 38) {
      EXPECT_LT(lr, before) << step;
    }
    before = lr;
  }
}

}  // namespace
}  // namespace echelon
