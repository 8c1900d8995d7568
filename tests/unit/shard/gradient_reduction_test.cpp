#include "shard/gradient_reduction.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/refusal.h"
#include "unit/shard/twins.h"

namespace echelon {
namespace {

using State = GradientReduction::State;

/// One unit of a group of two ranks with the same gradients.
struct TwoRanks {
  explicit TwoRanks(bool reduce_at_end = false, bool offload = false)
      : setup{.groups = &groups,
              .pool = &pool,
              .copies = &copies,
              .reduce_at_end = reduce_at_end,
              .offload = offload},
        slice(at::zeros({layout.slice_numel()})) {
    parameter.value = at::zeros(parameter.shape()).requires_grad_(true);
    parameter.gradient = reduction.view(0, parameter.shape());
  }

  /// A micro-batch whose gradient is `value` everywhere.
  void pass(float value, MicroBatch place) {
    reduction.begin(place);
    reduction.open();
    EXPECT_EQ(reduction.state(), State::kCollecting);
    parameter.gradient.fill_(value);
    parameter.deposited = true;
    reduction.collect_leaves();
    reduction.start();
  }
  /// Of the slice, which one rank's whole parameter is larger than.
  void expect_sum(float value) const {
    EXPECT_TRUE(at::equal(slice, at::full({layout.slice_numel()}, value))) << slice[0];
  }
  [[nodiscard]] std::int64_t live() const {
    return pool.bytes(Use::kGradients).live + pool.bytes(Use::kStaging).live;
  }

  test::Twins comm{2};
  Groups groups{{}, comm, 1};
  BufferPool pool{at::kCPU};
  CopyStream copies{at::kCPU};
  UnitSetup setup;
  Parameter parameter{"weight", {16, 30}, {}};
  UnitPlan plan{.name = "layer", .parameters = {&parameter}};
  FlatLayout layout{plan.parameters, 2};
  at::Tensor slice;
  GradientReduction reduction{plan, setup, layout, slice};
};

constexpr MicroBatch kOnly{true, true};
constexpr MicroBatch kFirst{true, false};
constexpr MicroBatch kLast{false, true};

TEST(GradientReduction, GoesFromIdleToArrivedAndGivesItsMemoryBack) {
  TwoRanks unit;
  EXPECT_EQ(unit.reduction.state(), State::kIdle);
  unit.pass(3, kOnly);
  EXPECT_EQ(unit.reduction.state(), State::kReducing);
  unit.expect_sum(0);
  unit.reduction.finish();
  EXPECT_EQ(unit.reduction.state(), State::kArrived);
  unit.expect_sum(6);
  EXPECT_EQ(unit.live(), 0);
}

TEST(GradientReduction, TheNextMicroBatchWaitsForTheSumOfTheOneBefore) {
  for (const bool offload : {false, true}) {
    TwoRanks unit(false, offload);
    unit.pass(3, kFirst);
    unit.pass(4, kLast);
    unit.expect_sum(6);
    unit.reduction.finish();
    EXPECT_EQ(unit.reduction.state(), State::kArrived);
    unit.expect_sum(14);
    EXPECT_EQ(unit.live(), 0);
  }
}

TEST(GradientReduction, WhereItIsDoneAtTheEndMicroBatchesAreHeldOnTheRank) {
  TwoRanks unit(true);
  unit.pass(3, kFirst);
  EXPECT_EQ(unit.reduction.state(), State::kHeld);
  unit.reduction.finish();
  unit.reduction.land();
  EXPECT_EQ(unit.reduction.state(), State::kHeld) << "there is nothing to finish yet";
  unit.pass(4, {false, false});
  EXPECT_EQ(unit.reduction.state(), State::kHeld);
  unit.pass(5, kLast);
  EXPECT_EQ(unit.reduction.state(), State::kReducing);
  unit.reduction.finish();
  unit.expect_sum(24);
  EXPECT_EQ(unit.live(), 0);
  unit.pass(1, kOnly);
  unit.reduction.finish();
  unit.expect_sum(2);
}

TEST(GradientReduction, WhatAutogradLeftAtTheLeavesIsAddedAndTheUnusedIsZero) {
  TwoRanks unit;
  unit.pass(7, kOnly);
  unit.reduction.begin(kOnly);
  unit.parameter.value.mutable_grad() = at::full(unit.parameter.shape(), 2.0F);
  unit.reduction.collect_leaves();
  EXPECT_FALSE(unit.parameter.value.grad().defined());
  unit.reduction.start();
  unit.reduction.finish();
  unit.expect_sum(4);
  unit.reduction.begin(kOnly);
  unit.reduction.collect_leaves();
  unit.reduction.start();
  unit.reduction.finish();
  unit.expect_sum(0);
}

TEST(GradientReduction, ALateFinishDoesNotDisturbTheMicroBatchUnderWay) {
  TwoRanks unit;
  unit.pass(3, kFirst);
  unit.reduction.begin(kLast);
  unit.reduction.open();  // has finished the sum of the first
  unit.parameter.gradient.fill_(4);
  unit.parameter.deposited = true;
  unit.reduction.finish();
  unit.reduction.land();
  EXPECT_EQ(unit.reduction.state(), State::kCollecting);
  unit.reduction.collect_leaves();
  unit.reduction.start();
  unit.reduction.land();
  EXPECT_EQ(unit.reduction.state(), State::kReducing);
  unit.reduction.finish();
  unit.expect_sum(14);
}

TEST(GradientReduction, CallsOutOfOrderAreRefused) {
  TwoRanks unit;
  EXPECT_THROW(unit.reduction.start(), Error);
  unit.reduction.open();
  EXPECT_THROW(unit.reduction.begin(kOnly), Error);
  unit.reduction.collect_leaves();
  unit.reduction.start();
  EXPECT_EQ(test::refusal(Code::kInternal, [&] { unit.reduction.start(); }),
            "internal error: unit 'layer': start() while its state is 'reducing'"
            "; this is a fault of Echelon: please report it");
}

}  // namespace
}  // namespace echelon
