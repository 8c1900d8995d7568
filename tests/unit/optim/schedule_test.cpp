#include "optim/schedule.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/matches.h"
#include "support/refusal.h"

namespace echelon {
namespace {

const OptimOptions kOptim{.lr = 2e-3};

void expect_rates(const ScheduleOptions& schedule, const std::vector<double>& expected) {
  const auto steps = static_cast<std::int64_t>(expected.size());
  for (std::int64_t step = 1; const double rate : expected) {
    EXPECT_NEAR(learning_rate(kOptim, schedule, step, steps), rate, 1e-12) << "step " << step;
    ++step;
  }
}

TEST(Schedule, ConstantStaysAtLr) {
  for (const std::int64_t step : {1, 2, 500, 1000})
    EXPECT_EQ(learning_rate(kOptim, {.kind = ScheduleKind::kConstant}, step, 1000), 2e-3);
}

// The tables below are those of torch.optim.lr_scheduler; tests/oracle/schedule_oracle.py computes them anew
// from the lines that start with "torch:" and compares them with these.

// torch: LinearLR(optimizer, start_factor=0.1, total_iters=4)
TEST(Schedule, LinearWarmupIsPyTorchs) {
  expect_rates({.kind = ScheduleKind::kLinearWarmup, .warmup_steps = 4, .warmup_start_factor = 0.1},
               {0.0002, 0.00065, 0.0011, 0.00155, 0.002, 0.002, 0.002, 0.002});
}

// torch: StepLR(optimizer, step_size=3, gamma=0.5)
TEST(Schedule, StepIsPyTorchs) {
  expect_rates({.kind = ScheduleKind::kStep, .step_size = 3, .gamma = 0.5},
               {0.002, 0.002, 0.002, 0.001, 0.001, 0.001, 0.0005, 0.0005});
}

TEST(Schedule, StepFallsByEpochsOfAnyLength) {
  const ScheduleOptions schedule{.kind = ScheduleKind::kStep, .step_epochs = 2, .gamma = 0.5};
  const double epoch = 2.5;  // the first steps that see a third and a fifth epoch's samples are 6 and 11
  for (std::int64_t step = 1; step <= 11; ++step) {
    const double expected = kOptim.lr * (step < 6 ? 1.0 : step < 11 ? 0.5 : 0.25);
    const double epochs = static_cast<double>(step - 1) / epoch;
    EXPECT_NEAR(learning_rate(kOptim, schedule, step, 20, epochs), expected, 1e-12) << step;
  }
}

// torch: CosineAnnealingLR(optimizer, T_max=8, eta_min=2e-4)
TEST(Schedule, CosineIsPyTorchs) {
  expect_rates({.kind = ScheduleKind::kCosine, .min_lr = 2e-4},
               {0.002, 0.0019314915792601579, 0.0017363961030678928, 0.001444415089128581, 0.0011,
                0.0007555849108714191, 0.0004636038969321072, 0.0002685084207398422});
}

// torch: SequentialLR(optimizer, [LinearLR(optimizer, start_factor=0.1, total_iters=4),
// torch: CosineAnnealingLR(optimizer, T_max=8, eta_min=2e-4)], milestones=[4])
TEST(Schedule, WarmupCosineIsPyTorchs) {
  expect_rates(
      {.kind = ScheduleKind::kWarmupCosine, .warmup_steps = 4, .warmup_start_factor = 0.1, .min_lr = 2e-4},
      {0.0002, 0.00065, 0.0011, 0.00155, 0.002, 0.0019314915792601579, 0.0017363961030678928,
       0.001444415089128581, 0.0011, 0.0007555849108714191, 0.0004636038969321072, 0.0002685084207398422});
}

// torch: SequentialLR(optimizer, [LinearLR(optimizer, start_factor=0.25, total_iters=2),
// torch: ConstantLR(optimizer, factor=1.0), LinearLR(optimizer, start_factor=1.0, end_factor=0.1,
// torch: total_iters=4)], milestones=[2, 5])
TEST(Schedule, WarmupStableDecayIsPyTorchs) {
  expect_rates({.kind = ScheduleKind::kWarmupStableDecay,
                .warmup_steps = 2,
                .warmup_start_factor = 0.25,
                .min_lr = 2e-4,
                .decay_steps = 4},
               {0.0005, 0.00125, 0.002, 0.002, 0.002, 0.002, 0.00155, 0.0011, 0.00065});
}

// torch: SequentialLR(optimizer, [LinearLR(optimizer, start_factor=0.1, total_iters=3),
// torch: ConstantLR(optimizer, factor=1.0), CosineAnnealingLR(optimizer, T_max=4, eta_min=2e-4)],
// torch: milestones=[3, 5])
TEST(Schedule, SequenceOfWarmupConstantAndCosineIsPyTorchs) {
  expect_rates(
      {.kind = ScheduleKind::kSequence,
       .warmup_start_factor = 0.1,
       .min_lr = 2e-4,
       .sequence = {{ScheduleKind::kLinearWarmup, 3}, {ScheduleKind::kConstant, 2}, {ScheduleKind::kCosine}}},
      {0.0002, 0.0008, 0.0014, 0.002, 0.002, 0.002, 0.0017363961030678928, 0.0011, 0.0004636038969321072});
}

// torch: SequentialLR(optimizer, [StepLR(optimizer, step_size=2, gamma=0.5), LinearLR(optimizer,
// torch: start_factor=0.25, end_factor=0.1, total_iters=3)], milestones=[4])
TEST(Schedule, AnEntryStartsAtTheRateThatWasReached) {
  expect_rates({.kind = ScheduleKind::kSequence,
                .min_lr = 2e-4,
                .step_size = 2,
                .gamma = 0.5,
                .sequence = {{ScheduleKind::kStep, 4}, {ScheduleKind::kLinearDecay}}},
               {0.002, 0.002, 0.001, 0.001, 0.0005, 0.0004, 0.0003});
}

// torch: LambdaLR(optimizer, lambda s: (s + 1) / 4 if s < 4 else 1 - (s - 4) / 5)
TEST(Schedule, TheSequenceOfATorchtitanFileIsItsLinearWarmupStableDecay) {
  expect_rates({.kind = ScheduleKind::kSequence,
                .warmup_start_factor = 0.25,
                .sequence = {{ScheduleKind::kLinearWarmup, 3},
                             {ScheduleKind::kConstant, 1},
                             {ScheduleKind::kLinearDecay}}},
               {0.0005, 0.001, 0.0015, 0.002, 0.002, 0.0016, 0.0012, 0.0008, 0.0004});
}

TEST(Schedule, ASequenceThatIsOverStaysWhereItEnded) {
  expect_rates({.kind = ScheduleKind::kSequence,
                .min_lr = 5e-4,
                .sequence = {{ScheduleKind::kConstant, 2}, {ScheduleKind::kLinearDecay, 2}}},
               {0.002, 0.002, 0.002, 0.00125, 0.0005, 0.0005});
}

TEST(Schedule, AWarmupInTheMiddleRisesToTheFullRateAgain) {
  expect_rates({.kind = ScheduleKind::kSequence,
                .warmup_start_factor = 0.5,
                .min_lr = 0,
                .sequence = {{ScheduleKind::kLinearDecay, 2},
                             {ScheduleKind::kLinearWarmup, 2},
                             {ScheduleKind::kConstant}}},
               {0.002, 0.001, 0.001, 0.0015, 0.002, 0.002});
}

TEST(Schedule, WithoutWarmupTheFirstStepHasTheFullRate) {
  for (const ScheduleKind kind :
       {ScheduleKind::kLinearWarmup, ScheduleKind::kWarmupCosine, ScheduleKind::kWarmupStableDecay})
    EXPECT_EQ(learning_rate(kOptim, {.kind = kind, .warmup_steps = 0}, 1, 10), 2e-3) << word_of(kind);
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

std::string refusal(const ScheduleOptions& schedule) {
  return test::refusal(Code::kInternal, [&] { return learning_rate(kOptim, schedule, 10, 10); });
}

TEST(Schedule, RefusesKindsInTheWrongPlace) {
  EXPECT_MENTIONS(refusal({.kind = ScheduleKind::kLinearDecay}), "kind of phase only");
  const auto sequence = [](ScheduleKind kind) {
    return refusal({.kind = ScheduleKind::kSequence, .sequence = {{kind, 20}}});
  };
  EXPECT_MENTIONS(sequence(ScheduleKind::kWarmupCosine), "warmup_cosine is not a kind of phase");
  for (const ScheduleKind kind : kPhaseKinds) EXPECT_EQ(sequence(kind), "accepted") << word_of(kind);
}

}  // namespace
}  // namespace echelon
