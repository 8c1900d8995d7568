#include "forecast/outlook.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace echelon::forecast {
namespace {

/// Every operation takes as long as its `bytes` (of a message: `sent_bytes`) say, at one byte a second.
class BytesAsSeconds final : public Rates {
 public:
  [[nodiscard]] double seconds(const Work& work) const override { return work.bytes; }
  [[nodiscard]] double seconds(const Message& message, const Group&) const override {
    return message.sent_bytes;
  }
  [[nodiscard]] double launch_s() const override { return 0; }
  [[nodiscard]] bool has_device() const override { return true; }
};
const BytesAsSeconds kRates;

constexpr JobShape kTwoNodes{.ranks = 16, .ranks_per_node = 8};

enum WhichGroup : std::uint16_t { kAll, kNode, kReplicas, kAlone, kAllOnHost };

/// What rank 0 of two nodes with 8 ranks each rehearsed: nothing yet.
Rehearsed nothing_rehearsed() {
  Rehearsed r;
  std::vector<int> all(16);
  std::iota(all.begin(), all.end(), 0);
  r.step.groups = {
      {all, false}, {{0, 1, 2, 3, 4, 5, 6, 7}, false}, {{0, 8}, false}, {{0}, false}, {all, true}};
  r.step.names = {"product", "copy", "message"};
  r.step.places = {"forward layers.0", "backward layers.1", "update"};
  return r;
}

void add_message(Trace& trace, OperationKind kind, double sent_bytes, WhichGroup group) {
  trace.messages.push_back({.kind = kind, .sent_bytes = sent_bytes, .group = group, .label = 2});
  trace.events.push_back({Event::Kind::kIssue, 0, static_cast<std::uint32_t>(trace.messages.size() - 1)});
}

void add_work(Trace& trace, double seconds, Cost cost, std::uint16_t name = 0, std::uint16_t place = 0) {
  trace.works.push_back(
      {.flops = 1000 * seconds, .bytes = seconds, .name = name, .place = place, .cost = cost});
  trace.events.push_back({Event::Kind::kWork, 0, static_cast<std::uint32_t>(trace.works.size() - 1)});
}

TEST(Outlook, SplitsTrafficOfRingsByLink) {
  Rehearsed r = nothing_rehearsed();
  add_message(r.step, OperationKind::kAllGather, 1600, kAll);  // of 16 links of the ring 2 leave a node
  add_message(r.step, OperationKind::kReduceScatter, 70, kNode);
  add_message(r.step, OperationKind::kAllReduce, 100, kReplicas);
  add_message(r.step, OperationKind::kAllGather, 0, kAlone);
  const Outlook o = look_ahead(r, {.job = kTwoNodes}, nullptr);
  EXPECT_EQ(o.traffic.sent, 1770);
  EXPECT_EQ(o.traffic.network, 200 + 100);
  EXPECT_EQ(o.traffic.peer, 1400 + 70);
  const std::map<std::string, double> expected{
      {"all_gather", 1600}, {"all_reduce", 100}, {"reduce_scatter", 70}};
  EXPECT_EQ(o.traffic.by_operation, expected);
}

TEST(Outlook, SplitsTrafficOfExchangesByReceiver) {
  Rehearsed r = nothing_rehearsed();
  // Every rank sends to each of the others (payload.h): 8 of the 15 are on the other node.
  add_message(r.step, OperationKind::kAllGather, 1500, kAllOnHost);
  // GPUs with gradients of two bytes: two nodes' pieces to 7 ranks in bf16, one node's sum in fp32.
  add_message(r.step, OperationKind::kReduceScatter, 160, kAll);
  r.step.messages.back().type = DType::kBF16;
  const Outlook o = look_ahead(r, {.job = kTwoNodes}, nullptr);
  EXPECT_EQ(o.traffic.sent, 1660);
  EXPECT_DOUBLE_EQ(o.traffic.network, 800 + 20);
  EXPECT_DOUBLE_EQ(o.traffic.peer, 700 + 140);
}

TEST(Outlook, OfOneNodeNothingLeavesIt) {
  Rehearsed r = nothing_rehearsed();
  add_message(r.step, OperationKind::kAllGather, 1600, kNode);
  const Outlook o = look_ahead(r, {.job = {.ranks = 8, .ranks_per_node = 8}}, nullptr);
  EXPECT_EQ(o.traffic.peer, 1600);
  EXPECT_EQ(o.traffic.network, 0);
}

TEST(Outlook, CountsTheTrafficOfPassesThatWereNotRehearsed) {
  Rehearsed r = nothing_rehearsed();
  for (const double sent : {1.0, 10.0, 100.0}) {
    r.step.passes.push_back(static_cast<std::uint32_t>(r.step.events.size()));
    add_message(r.step, OperationKind::kAllGather, sent, kNode);
  }
  add_message(r.step, OperationKind::kAllReduce, 1000, kNode);
  for (const auto& [passes, sent] : {std::pair{3, 1111.0}, {4, 1121.0}, {10, 1181.0}}) {
    r.passes = passes;
    const Outlook o = look_ahead(r, {.job = kTwoNodes}, nullptr);
    EXPECT_EQ(o.traffic.sent, sent) << passes;
    EXPECT_EQ(o.traffic.peer, sent) << passes;
    EXPECT_EQ(o.traffic.by_operation.at("all_gather"), sent - 1000) << passes;
  }
}

TEST(Outlook, SaysWhetherMemorySuffices) {
  Rehearsed r = nothing_rehearsed();
  r.memory.device_peak = 700;
  r.memory.device_reserved = 900;
  const auto at_limit = [&](double limit) {
    return look_ahead(r, {.memory_bytes = limit, .context_bytes = 50}, nullptr);
  };
  EXPECT_EQ(at_limit(1000).tensor_peak_bytes, 700);
  EXPECT_EQ(at_limit(1000).peak_bytes, 950);
  EXPECT_EQ(at_limit(1000).limit_bytes, 1000);
  EXPECT_TRUE(at_limit(1000).fits());
  EXPECT_TRUE(at_limit(950).fits());
  EXPECT_FALSE(at_limit(949).fits());
  EXPECT_TRUE(at_limit(0).fits()) << "no limit is known";
}

TEST(Outlook, NamesThePlaceOfThePeak) {
  Rehearsed r = nothing_rehearsed();
  add_message(r.step, OperationKind::kAllGather, 1, kNode);
  add_work(r.step, 1, Cost::kProduct, 0, 0);
  add_work(r.step, 1, Cost::kProduct, 0, 1);
  add_message(r.step, OperationKind::kReduceScatter, 1, kNode);
  add_work(r.step, 1, Cost::kMemory, 0, 2);
  const char* const expected[] = {"start", "forward layers.0", "backward layers.1", "backward layers.1",
                                  "update"};
  for (std::uint32_t event = 0; event < 5; ++event) {
    r.step.peak = event;
    EXPECT_EQ(look_ahead(r, {}, nullptr).peak_place, expected[event]) << event;
  }
}

/// A step of 10 seconds: 6 of products, 3 of copies, and a wait of 1 for a gather.
Rehearsed ten_seconds() {
  Rehearsed r = nothing_rehearsed();
  add_work(r.step, 6, Cost::kProduct);
  add_message(r.step, OperationKind::kAllGather, 1, kNode);
  r.step.events.push_back({Event::Kind::kWait, 0, 0});
  add_work(r.step, 3, Cost::kHostCopy, 1);
  r.samples = 40;
  r.tokens_per_sample = 512;
  r.model_flops = 6000;
  r.checkpoint_bytes = 120;
  r.rank_checkpoint_bytes = 15;
  return r;
}

TEST(Outlook, HasNoTimesWithoutRates) {
  EXPECT_FALSE(look_ahead(ten_seconds(), {}, nullptr).time.has_value());
}

TEST(Outlook, DerivesRatesFromTheStep) {
  const OutlookOptions options{.job = kTwoNodes, .peak_flops = 1500};
  const Outlook o = look_ahead(ten_seconds(), options, &kRates);
  ASSERT_TRUE(o.time);
  EXPECT_EQ(o.time->step_s, 10);
  EXPECT_EQ(o.time->timeline.step_s, 10);
  EXPECT_EQ(o.time->timeline.wait_s[index_of(Lane::kGather)], 1);
  EXPECT_EQ(o.time->samples_per_s, 4);
  EXPECT_EQ(o.time->tokens_per_s, 2048);
  EXPECT_DOUBLE_EQ(o.time->mfu, 0.4);  // 600 FLOP/s of 1500
  EXPECT_DOUBLE_EQ(o.time->hfu, 0.6);  // 9000 in 10 s
  EXPECT_EQ(
      o.time->limit,
      "matrix products 60 %, copies between host and device 30 %, waiting for weights to be gathered 10 %");
  const Outlook unknown = look_ahead(ten_seconds(), {}, &kRates);
  EXPECT_EQ(unknown.time->mfu, 0);
  EXPECT_EQ(unknown.time->hfu, 0);
}

TEST(Outlook, AddsStallsToTheRun) {
  OutlookOptions options{
      .job = kTwoNodes, .steps = 100, .save_every_steps = 25, .disk_bytes_per_s = 2, .copy_bytes_per_s = 5};
  const Outlook o = look_ahead(ten_seconds(), options, &kRates);
  EXPECT_EQ(o.stall_s, 3);  // 15 bytes of this rank at 5 B/s
  EXPECT_EQ(o.save_s, 30);  // 120 of all ranks by two nodes of 2 B/s
  EXPECT_EQ(o.time->run_s, 100 * 10 + 4 * 3);
  EXPECT_DOUBLE_EQ(o.time->device_hours, 1012.0 * 16 / 3600);
  EXPECT_EQ(o.time->goodput, 1);
  EXPECT_EQ(o.time->save_every_s, 0);
  EXPECT_EQ(o.node_memory_saves, 0);
  options.memory_every_steps = 50;  // those steps are saved to disk
  EXPECT_EQ(look_ahead(ten_seconds(), options, &kRates).time->run_s, 1012);
  EXPECT_EQ(look_ahead(ten_seconds(), options, &kRates).node_memory_saves, 2 * (60 + 60));  // with copies
  options.copy_bytes_per_s = 0;
  EXPECT_EQ(look_ahead(ten_seconds(), options, &kRates).stall_s, 0);
  EXPECT_EQ(look_ahead(ten_seconds(), options, &kRates).time->run_s, 1000);
  options.waits_for_saves = true;
  EXPECT_EQ(look_ahead(ten_seconds(), options, &kRates).time->run_s, 100 * 10 + 4 * 30);
  // checkpoint.max_write_mb_per_s
  options.rank_bytes_per_s = 0.25;
  EXPECT_EQ(look_ahead(ten_seconds(), options, &kRates).save_s, 60);
  options.rank_bytes_per_s = 15;
  EXPECT_EQ(look_ahead(ten_seconds(), options, &kRates).save_s, 30);
}

TEST(Outlook, AddsStallsOfSavesByTimeAndToMemory) {
  const auto run_s = [&](OutlookOptions options) {
    options.job = kTwoNodes;
    options.steps = 100;
    options.disk_bytes_per_s = 2;  // 30 s
    options.copy_bytes_per_s = 5;  // 3 s
    const Outlook::Time time = *look_ahead(ten_seconds(), options, &kRates).time;
    EXPECT_DOUBLE_EQ(time.trains, 1000 / time.run_s);
    return time.run_s;
  };
  EXPECT_EQ(run_s({}), 1000);
  EXPECT_DOUBLE_EQ(run_s({.save_every_s = 103}), 1000 + 10 * 3) << "every 103 s of the clock";
  EXPECT_DOUBLE_EQ(run_s({.save_every_steps = 5, .save_every_s = 103}), 1000 + 20 * 3);
  EXPECT_DOUBLE_EQ(run_s({.save_every_s = 130, .waits_for_saves = true}), 1000 + 10 * 30);
  EXPECT_DOUBLE_EQ(run_s({.save_every_s = 8, .waits_for_saves = true}), 1000 + 100 * 30) << "at each step";
  EXPECT_DOUBLE_EQ(run_s({.save_every_s = 8}), 1000 + 1000.0 / 27 * 3) << "once the last one has ended";
  EXPECT_DOUBLE_EQ(run_s({.save_every_steps = 1}), 1000 + 1000.0 / 27 * 3);
  // The square root of 2 * 3 * 2400 is 120.
  EXPECT_DOUBLE_EQ(run_s({.save_for_failure_every_s = 2400}), 1000 + 1000.0 / 117 * 3);
  EXPECT_DOUBLE_EQ(run_s({.save_for_failure_every_s = 1}), 1000 + 1000.0 / 27 * 3);
  EXPECT_DOUBLE_EQ(run_s({.memory_every_steps = 10}), 1000 + 10 * 3);
  EXPECT_DOUBLE_EQ(run_s({.save_every_steps = 25, .memory_every_steps = 10}), 1000 + (4 + 8) * 3);
}

TEST(Outlook, ProposesNoIntervalThatIsShorterThanASave) {
  const OutlookOptions options{.job = kTwoNodes,
                               .steps = 100,
                               .disk_bytes_per_s = 0.01,  // 6000 s
                               .copy_bytes_per_s = 100,
                               .node_days_to_failure = 2};
  EXPECT_EQ(look_ahead(ten_seconds(), options, &kRates).time->save_every_s, 6000);
}

TEST(Outlook, ExpectsFailuresAfterYoungAndDaly) {
  Rehearsed r = ten_seconds();
  // Two nodes that fail every two days each: one failure a day. A save stalls 0.75 s; the square root of
  // 2 * 0.75 * 86400 is 360.
  r.rank_checkpoint_bytes = 75;
  OutlookOptions options{
      .job = kTwoNodes, .steps = 1000, .copy_bytes_per_s = 100, .node_days_to_failure = 2, .restart_s = 252};
  const Outlook o = look_ahead(r, options, &kRates);
  EXPECT_EQ(o.stall_s, 0.75);
  EXPECT_DOUBLE_EQ(o.time->save_every_s, 360);
  // Lost: 0.75 of 360 seconds, and at each failure half an interval and the restart, 432 of 86400.
  const double goodput = 1 - (0.75 / 360 + 432.0 / 86400);
  EXPECT_DOUBLE_EQ(o.time->goodput, goodput);
  EXPECT_DOUBLE_EQ(o.time->device_hours, 10'000.0 / goodput * 16 / 3600);
  // Nothing is left where failures come before a restart ends.
  options.node_days_to_failure = 1e-4;
  EXPECT_EQ(look_ahead(r, options, &kRates).time->goodput, 0);
  options.node_days_to_failure = 0;
  EXPECT_EQ(look_ahead(r, options, &kRates).time->goodput, 1);
}

TEST(Outlook, PlaysThePassesOfTheRecipe) {
  Rehearsed r = nothing_rehearsed();
  for (const double seconds : {2.0, 3.0, 5.0}) {
    r.step.passes.push_back(static_cast<std::uint32_t>(r.step.events.size()));
    add_work(r.step, seconds, Cost::kProduct);
  }
  r.passes = 3;
  EXPECT_EQ(look_ahead(r, {}, &kRates).time->step_s, 10);
  r.passes = 7;
  EXPECT_EQ(look_ahead(r, {}, &kRates).time->step_s, 22);
}

}  // namespace
}  // namespace echelon::forecast
