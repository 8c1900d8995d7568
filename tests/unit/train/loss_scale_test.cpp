#include "train/loss_scale.h"

#include <gtest/gtest.h>

namespace echelon {
namespace {

PrecisionOptions options() {
  PrecisionOptions chosen;
  chosen.loss_scale = 1024;
  chosen.loss_scale_growth_steps = 3;
  return chosen;
}

TEST(LossScale, IsOneWhereNothingNeedsIt) {
  LossScale scale(options(), false);
  scale.update(false);
  EXPECT_EQ(scale.factor(), 1.0);
  EXPECT_FALSE(scale.can_shrink());
}

TEST(LossScale, HalvesAtAnOverflowAndDoublesAfterARunOfFiniteSteps) {
  LossScale scale(options(), true);
  scale.update(false);
  EXPECT_EQ(scale.factor(), 512.0);
  for (const double expected : {512.0, 512.0, 1024.0, 1024.0, 1024.0, 2048.0}) {
    scale.update(true);
    EXPECT_EQ(scale.factor(), expected);
  }
}

TEST(LossScale, AnOverflowStartsTheRunAnew) {
  LossScale scale(options(), true);
  scale.update(true);
  scale.update(true);
  scale.update(false);
  scale.update(true);
  EXPECT_EQ(scale.factor(), 512.0);
  EXPECT_EQ(scale.finite_in_a_row(), 1);
}

TEST(LossScale, StopsShrinkingWhereScalingIsNotTheCause) {
  LossScale scale(options(), true);
  for (int i = 0; i < 100; ++i) scale.update(false);
  EXPECT_FALSE(scale.can_shrink());
  EXPECT_GT(scale.factor(), 0.0);
}

TEST(LossScale, GoesOnWhereItWasSaved) {
  LossScale scale(options(), true);
  scale.restore(4096, 2);
  scale.update(true);
  EXPECT_EQ(scale.factor(), 8192.0);
}

}  // namespace
}  // namespace echelon
