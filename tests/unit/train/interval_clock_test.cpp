#include "train/interval_clock.h"

#include <gtest/gtest.h>

namespace echelon {
namespace {

TEST(IntervalClock, TellsMeansOfItsSteps) {
  IntervalClock clock;
  clock.begin({.now_s = 100, .comm_waited_s = 7, .data_waited_s = 3});
  clock.step_ended(512);
  EXPECT_DOUBLE_EQ(clock.step_s(102), 2);
  clock.step_ended(256);
  const IntervalClock::Means means = clock.means({.now_s = 103, .comm_waited_s = 8, .data_waited_s = 3.5});
  EXPECT_DOUBLE_EQ(means.step_s, 1.5);
  EXPECT_DOUBLE_EQ(means.comm_wait_s, 0.5);
  EXPECT_DOUBLE_EQ(means.data_wait_s, 0.25);
  EXPECT_DOUBLE_EQ(means.tokens, 384);
}

TEST(IntervalClock, WhatWasNoTrainingBelongsToNoStep) {
  IntervalClock clock;
  clock.begin({.now_s = 100});
  clock.step_ended(0);
  clock.pause(30);
  clock.step_ended(0);
  EXPECT_DOUBLE_EQ(clock.step_s(134), 2);
  EXPECT_DOUBLE_EQ(clock.means({.now_s = 134}).step_s, 2);
}

TEST(IntervalClock, ANewIntervalForgetsTheOneBefore) {
  IntervalClock clock;
  clock.begin({.now_s = 100});
  clock.step_ended(1000);
  clock.pause(5);
  clock.begin({.now_s = 200, .comm_waited_s = 4});
  clock.step_ended(10);
  const IntervalClock::Means means = clock.means({.now_s = 201, .comm_waited_s = 4});
  EXPECT_DOUBLE_EQ(means.step_s, 1);
  EXPECT_DOUBLE_EQ(means.comm_wait_s, 0);
  EXPECT_DOUBLE_EQ(means.tokens, 10);
}

}  // namespace
}  // namespace echelon
