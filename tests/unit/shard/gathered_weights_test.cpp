#include "shard/gathered_weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>

#include "base/error.h"
#include "comm/local_communicator.h"
#include "support/refusal.h"
#include "unit/shard/twins.h"

namespace echelon {
namespace {

using State = GatheredWeights::State;
using Call = void (GatheredWeights::*)();

/// One unit of a group of four ranks with the same slices, two of which keep weights between passes.
struct FourRanks {
  FourRanks() : slice(at::arange(layout.slice_numel(), at::kFloat)) {}

  /// What start() gathers: the slice, four times.
  void expect_whole() const {
    const at::Tensor whole = weights.view(0, {layout.padded_numel()});
    EXPECT_TRUE(at::equal(whole, slice.repeat({4})));
  }
  void bring_to(State state) {
    if (state == State::kSharded) return;
    weights.start();
    if (state == State::kGathered) weights.finish();
    if (state == State::kPartlyKept) weights.keep_part();
  }
  [[nodiscard]] std::int64_t bytes(Use use) const { return pool.bytes(use).live; }

  test::Twins comm{4, 2};
  Groups groups{ShardOptions{.reshard_after_forward = {true, 2}}, comm, 1};
  BufferPool pool{at::kCPU};
  CopyStream copies{at::kCPU};
  UnitSetup setup{.groups = &groups, .pool = &pool, .copies = &copies, .strategy = {.keep_ranks = 2}};
  Parameter parameter{"weight", {10, 30}, {}};
  UnitPlan plan{.name = "layer", .parameters = {&parameter}};
  FlatLayout layout{plan.parameters, 4};
  at::Tensor slice;
  GatheredWeights weights{plan, setup, layout, slice};
};

TEST(GatheredWeights, EachCallLeadsWhereTheTableOfTheHeaderSays) {
  constexpr Call kCalls[] = {&GatheredWeights::start, &GatheredWeights::finish, &GatheredWeights::keep_part,
                             &GatheredWeights::release, &GatheredWeights::invalidate};
  constexpr std::optional<State> kRefused;
  const struct {
    State from;
    std::optional<State> to[std::size(kCalls)];
  } table[] = {
      {State::kSharded, {State::kGathering, kRefused, kRefused, State::kSharded, State::kSharded}},
      {State::kGathering,
       {State::kGathering, State::kGathered, State::kPartlyKept, State::kSharded, State::kSharded}},
      {State::kGathered,
       {State::kGathered, State::kGathered, State::kPartlyKept, State::kSharded, State::kSharded}},
      {State::kPartlyKept, {State::kGathering, kRefused, kRefused, State::kPartlyKept, State::kSharded}},
  };
  for (const auto& row : table) {
    for (std::size_t call = 0; call < std::size(kCalls); ++call) {
      SCOPED_TRACE("from " + std::to_string(static_cast<int>(row.from)) + ", call " + std::to_string(call));
      FourRanks unit;
      unit.bring_to(row.from);
      ASSERT_EQ(unit.weights.state(), row.from);
      if (!row.to[call]) {
        EXPECT_THROW((unit.weights.*kCalls[call])(), Error);
        EXPECT_EQ(unit.weights.state(), row.from);
        continue;
      }
      (unit.weights.*kCalls[call])();
      EXPECT_EQ(unit.weights.state(), *row.to[call]);
      const bool whole = *row.to[call] == State::kGathering || *row.to[call] == State::kGathered;
      EXPECT_EQ(unit.bytes(Use::kGathered), whole ? unit.layout.padded_numel() * 4 : 0);
      EXPECT_EQ(unit.bytes(Use::kStaging),
                *row.to[call] == State::kPartlyKept ? unit.layout.padded_numel() * 2 : 0);
      if (!whole) continue;
      unit.weights.finish();
      unit.expect_whole();
    }
  }
}

TEST(GatheredWeights, ARefusedCallNamesUnitAndState) {
  FourRanks unit;
  EXPECT_EQ(test::refusal(Code::kInternal, [&] { unit.weights.finish(); }),
            "internal error: unit 'layer': finish() while its state is 'sharded'"
            "; this is a fault of Echelon: please report it");
}

TEST(GatheredWeights, AreGatheredFromTheNewSliceAfterInvalidate) {
  for (const State state : {State::kGathering, State::kGathered, State::kPartlyKept}) {
    FourRanks unit;
    unit.bring_to(state);
    unit.slice.add_(1);
    unit.weights.invalidate();
    unit.weights.start();
    unit.weights.finish();
    unit.expect_whole();
  }
}

TEST(GatheredWeights, ASliceThatIsTheWholeIsAlwaysGathered) {
  LocalCommunicator comm;
  const Groups groups({}, comm, 1);
  BufferPool pool(at::kCPU);
  CopyStream copies(at::kCPU);
  const UnitSetup setup{.groups = &groups, .pool = &pool, .copies = &copies};
  Parameter parameter("weight", {10, 30}, {});
  const UnitPlan plan{.name = "layer", .parameters = {&parameter}};
  const FlatLayout layout(plan.parameters, 1);
  const at::Tensor slice = at::ones({layout.slice_numel()});
  GatheredWeights weights(plan, setup, layout, slice);
  for (const Call call : {&GatheredWeights::start, &GatheredWeights::finish, &GatheredWeights::release,
                          &GatheredWeights::invalidate}) {
    (weights.*call)();
    EXPECT_EQ(weights.state(), State::kGathered);
    EXPECT_EQ(weights.view(0, {1}).data_ptr(), slice.data_ptr());
  }
  EXPECT_EQ(pool.bytes_allocated(), 0);
}

}  // namespace
}  // namespace echelon
