#include "shard/pass.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>

#include "base/error.h"
#include "unit/shard/twins.h"

namespace echelon {
namespace {

using State = Pass::State;

/// A pass over one unit of a group of two ranks.
struct OneUnit {
  OneUnit() { units.front()->begin({.first = true, .last = true}); }
  static std::vector<std::unique_ptr<Unit>> one(const UnitPlan& plan, const UnitSetup& setup) {
    std::vector<std::unique_ptr<Unit>> units;
    units.push_back(std::make_unique<Unit>(plan, setup));
    return units;
  }
  void bring_to(State state) {
    if (state == State::kIdle) return;
    pass.begin(state == State::kEvaluating ? state : State::kForward);
    if (state == State::kBackward) pass.turn();
  }

  test::Twins comm{2};
  Groups groups{{}, comm, 1};
  BufferPool pool{at::kCPU};
  CopyStream copies{at::kCPU};
  UnitSetup setup{.groups = &groups, .pool = &pool, .copies = &copies};
  Parameter parameter{"weight", {16, 30}, {}};
  UnitPlan plan{.name = "root", .parameters = {&parameter}};
  std::vector<std::unique_ptr<Unit>> units = one(plan, setup);
  Activity activity;
  Pass pass{units, {}, pool, activity};
};

TEST(Pass, EachCallLeadsWhereTheTableOfTheHeaderSays) {
  constexpr void (*kCalls[])(Pass&) = {
      [](Pass& pass) { pass.begin(State::kEvaluating); }, [](Pass& pass) { pass.begin(State::kForward); },
      [](Pass& pass) { pass.begin_forward(0); },          [](Pass& pass) { pass.turn(); },
      [](Pass& pass) { pass.begin_backward(0); },         [](Pass& pass) { pass.end(); },
  };
  constexpr State kEvaluating = State::kEvaluating;
  constexpr State kForward = State::kForward;
  constexpr State kBackward = State::kBackward;
  constexpr std::optional<State> kRefused;
  const struct {
    State from;
    std::optional<State> to[std::size(kCalls)];
  } table[] = {
      {State::kIdle, {kEvaluating, kForward, kRefused, kRefused, kRefused, kRefused}},
      {kEvaluating, {kEvaluating, kForward, kEvaluating, kRefused, kRefused, State::kIdle}},
      {kForward, {kEvaluating, kForward, kForward, kBackward, kRefused, kRefused}},
      {kBackward, {kEvaluating, kForward, kBackward, kRefused, kBackward, State::kIdle}},
  };
  for (const auto& row : table) {
    for (std::size_t call = 0; call < std::size(kCalls); ++call) {
      SCOPED_TRACE("from " + std::to_string(static_cast<int>(row.from)) + ", call " + std::to_string(call));
      OneUnit model;
      model.bring_to(row.from);
      ASSERT_EQ(model.pass.state(), row.from);
      if (row.to[call]) {
        kCalls[call](model.pass);
      } else {
        EXPECT_THROW(kCalls[call](model.pass), Error);
      }
      EXPECT_EQ(model.pass.state(), row.to[call].value_or(row.from));
    }
  }
}

TEST(Pass, HoldsTheRootUntilAnEvaluationEnds) {
  OneUnit model;
  const Unit& root = *model.units.front();
  model.pass.begin(State::kEvaluating);
  EXPECT_TRUE(root.gathered());
  model.pass.end();
  EXPECT_FALSE(root.gathered());
}

}  // namespace
}  // namespace echelon
