#include "train/interval_clock.h"

#include <gtest/gtest.h>

namespace echelon {
namespace {

TEST(IntervalClock, TellsMeansOfItsSteps) {
  IntervalClock clock;
  clock.begin({.now_s = 100, .spent = {.gather_wait_s = 7, .data_wait_s = 3}});
  clock.step_ended(512);
  EXPECT_DOUBLE_EQ(clock.step_s(102), 2);
  clock.step_ended(256);
  const IntervalClock::Means means = clock.means({.now_s = 103,
                                                  .spent = {.compute_s = 1,
                                                            .gather_wait_s = 7.75,
                                                            .reduce_wait_s = 0.25,
                                                            .data_wait_s = 3.5,
                                                            .optimizer_s = 0.5}});
  EXPECT_DOUBLE_EQ(means.step_s, 1.5);
  EXPECT_DOUBLE_EQ(means.spent.comm_wait_s(), 0.5);
  EXPECT_DOUBLE_EQ(means.spent.data_wait_s, 0.25);
  EXPECT_DOUBLE_EQ(means.tokens, 384);
  EXPECT_DOUBLE_EQ(means.spent.other_s, 1.5 - 0.5 - 0.5 - 0.25 - 0.25);
}

TEST(IntervalClock, WhatWasNoTrainingBelongsToNoStep) {
  IntervalClock clock;
  clock.begin({.now_s = 100});
  clock.step_ended(0);
  clock.pause({.now_s = 101, .spent = {.gather_wait_s = 1}}, {.now_s = 131, .spent = {.gather_wait_s = 5}});
  clock.step_ended(0);
  EXPECT_DOUBLE_EQ(clock.step_s(134), 2);
  const IntervalClock::Means means = clock.means({.now_s = 134, .spent = {.gather_wait_s = 6}});
  EXPECT_DOUBLE_EQ(means.step_s, 2);
  EXPECT_DOUBLE_EQ(means.spent.gather_wait_s, 1) << "what a validation waits is not the step's";
}

TEST(IntervalClock, ANewIntervalForgetsTheOneBefore) {
  IntervalClock clock;
  clock.begin({.now_s = 100});
  clock.step_ended(1000);
  clock.pause({.now_s = 100}, {.now_s = 105});
  clock.begin({.now_s = 200, .spent = {.reduce_wait_s = 4}});
  clock.step_ended(10);
  const IntervalClock::Means means = clock.means({.now_s = 201, .spent = {.reduce_wait_s = 4}});
  EXPECT_DOUBLE_EQ(means.step_s, 1);
  EXPECT_DOUBLE_EQ(means.spent.comm_wait_s(), 0);
  EXPECT_DOUBLE_EQ(means.tokens, 10);
}

}  // namespace
}  // namespace echelon
