#include "forecast/timeline.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace echelon::forecast {
namespace {

/// Operations say themselves how long they take: work its `flops`, a message its `sent_bytes`. All times are
/// sums of powers of two, so that comparisons are exact.
class StatedRates : public Rates {
 public:
  explicit StatedRates(double launch_s = 0, bool device = true) : launch_s_(launch_s), device_(device) {}
  [[nodiscard]] double seconds(const Work& work) const override { return work.flops; }
  [[nodiscard]] double seconds(const Message& message, const Group&) const override {
    return message.sent_bytes;
  }
  [[nodiscard]] double launch_s() const override { return launch_s_; }
  [[nodiscard]] bool has_device() const override { return device_; }

 private:
  double launch_s_;
  bool device_;
};

constexpr std::uint8_t kMain = 0;
constexpr std::uint8_t kCopies = 1;
constexpr std::uint16_t kOnDevice = 0;
constexpr std::uint16_t kOnHost = 1;

/// Writes a trace, one event after another.
class TraceWriter {
 public:
  TraceWriter() {
    trace.names = {"mm", "add", "gather", "reduce"};
    trace.places = {"forward", "backward"};
    trace.groups = {{{0, 1}, false}, {{0, 1}, true}};
  }

  TraceWriter& work(double seconds, std::uint8_t stream = kMain, std::uint16_t name = 0) {
    trace.works.push_back({.flops = seconds, .bytes = 8 * seconds, .name = name, .stream = stream});
    return add(Event::Kind::kWork, stream, trace.works.size() - 1);
  }
  std::uint32_t issue(OperationKind kind, double seconds, std::uint8_t stream = kMain,
                      std::uint16_t group = kOnDevice) {
    trace.messages.push_back({.stream = stream, .kind = kind, .sent_bytes = seconds, .group = group});
    add(Event::Kind::kIssue, stream, trace.messages.size() - 1);
    return static_cast<std::uint32_t>(trace.messages.size() - 1);
  }
  std::uint32_t gather(double seconds, std::uint8_t stream = kMain) {
    return issue(OperationKind::kAllGather, seconds, stream);
  }
  std::uint32_t reduce(double seconds, std::uint8_t stream = kMain) {
    return issue(OperationKind::kReduceScatter, seconds, stream);
  }
  TraceWriter& wait(std::uint32_t message, std::uint8_t stream = kMain) {
    return add(Event::Kind::kWait, stream, message);
  }
  std::uint32_t mark(std::uint8_t stream) {
    add(Event::Kind::kMark, stream, trace.marks);
    return trace.marks++;
  }
  TraceWriter& hold(std::uint8_t stream, std::uint32_t mark) { return add(Event::Kind::kHold, stream, mark); }
  TraceWriter& hold_host(std::uint32_t mark) { return add(Event::Kind::kHostHold, kMain, mark); }
  TraceWriter& sync(std::uint8_t stream = kMain) { return add(Event::Kind::kSync, stream, 0); }
  TraceWriter& begin_pass() {
    trace.passes.push_back(static_cast<std::uint32_t>(trace.events.size()));
    return *this;
  }

  [[nodiscard]] Timeline played(const Rates& rates = StatedRates(), std::int64_t passes = 1) const {
    return play(trace, rates, passes);
  }

  Trace trace;

 private:
  TraceWriter& add(Event::Kind kind, std::uint8_t stream, std::size_t index) {
    trace.events.push_back({kind, stream, static_cast<std::uint32_t>(index)});
    return *this;
  }
};

double busy(const Timeline& timeline, Lane lane) {
  return timeline.busy_s[index_of(lane)];
}
double waits(const Timeline& timeline, Lane lane) {
  return timeline.wait_s[index_of(lane)];
}

/// {lane, begin, end} of all spans.
std::string drawn(const Timeline& timeline) {
  std::string text;
  for (const Span& span : timeline.spans) {
    text += std::string(name_of(span.lane)) + " " + std::to_string(static_cast<int>(span.begin_s)) + "-" +
            std::to_string(static_cast<int>(span.end_s)) + "; ";
  }
  return text;
}

struct Timelines : ::testing::Test {
  TraceWriter w;
};

TEST_F(Timelines, AGatherRunsBesideComputing) {
  const auto weights = w.gather(3);
  w.work(2).wait(weights).work(4);
  const Timeline t = w.played();
  EXPECT_EQ(t.step_s, 7);  // 2, a second of waiting, 4
  EXPECT_EQ(waits(t, Lane::kGather), 1);
  EXPECT_EQ(waits(t, Lane::kReduce) + waits(t, Lane::kCopy) + waits(t, Lane::kHost), 0);
  EXPECT_EQ(busy(t, Lane::kCompute), 6);
  EXPECT_EQ(busy(t, Lane::kGather), 3);
  EXPECT_EQ(t.flops, 6);
  EXPECT_EQ(drawn(t), "gather 0-3; compute 0-2; compute 3-7; ");
}

TEST_F(Timelines, AGatherThatIsDoneInTimeCostsNothing) {
  const auto weights = w.gather(3);
  w.work(4).wait(weights).work(1);
  const Timeline t = w.played();
  EXPECT_EQ(t.step_s, 5);
  EXPECT_EQ(waits(t, Lane::kGather), 0);
}

TEST_F(Timelines, WaitsAreThoseOfWhatIsWaitedFor) {
  const std::vector<std::pair<OperationKind, Lane>> kinds{{OperationKind::kAllGather, Lane::kGather},
                                                          {OperationKind::kReduceScatter, Lane::kReduce},
                                                          {OperationKind::kAllReduce, Lane::kReduce}};
  for (const auto& [kind, wait] : kinds) {
    w = TraceWriter();
    w.work(1);
    const auto message = w.issue(kind, 5);  // reads what was computed before: from 1 to 6
    w.work(2).wait(message).work(1);
    const Timeline t = w.played();
    EXPECT_EQ(t.step_s, 7) << static_cast<int>(kind);
    EXPECT_EQ(waits(t, wait), 3) << static_cast<int>(kind);
    EXPECT_EQ(std::accumulate(t.wait_s.begin(), t.wait_s.end(), 0.0), 3);
  }
}

TEST_F(Timelines, OfTwoWaitsTheLongerOneIsTheCause) {
  for (const bool gather_first : {true, false}) {
    w = TraceWriter();
    const auto reduced = w.reduce(3);
    const auto gathered = w.gather(6);
    w.wait(gather_first ? gathered : reduced).wait(gather_first ? reduced : gathered).work(1);
    const Timeline t = w.played();
    EXPECT_EQ(t.step_s, 10);
    EXPECT_EQ(waits(t, Lane::kGather), 9) << gather_first;
    EXPECT_EQ(waits(t, Lane::kReduce), 0) << gather_first;
  }
}

TEST_F(Timelines, CollectivesShareTheirLink) {
  const auto first = w.gather(2);
  const auto second = w.gather(2);
  const auto sum = w.reduce(2);
  w.wait(first).work(1).wait(second).work(1).wait(sum).work(1);
  const Timeline t = w.played();
  EXPECT_EQ(drawn(t), "gather 0-2; gather 2-4; reduce 4-6; compute 2-3; compute 4-5; compute 6-7; ");
  EXPECT_EQ(waits(t, Lane::kGather), 3);
  EXPECT_EQ(waits(t, Lane::kReduce), 1);
}

TEST_F(Timelines, CollectivesTakeTheirShareOfTheDevice) {
  class Shared final : public StatedRates {
   public:
    [[nodiscard]] double taken_by_messages() const override { return 0.25; }
  };
  const auto weights = w.gather(4);
  w.work(6).wait(weights).work(1);
  EXPECT_EQ(w.played(Shared()).step_s, 8);  // a quarter of 4 seconds more
}

TEST_F(Timelines, WhatTheHostComputesKeepsItFromIssuing) {
  w.work(1).work(3).work(1);
  w.trace.works[1].on_host = true;
  const Timeline t = w.played();
  EXPECT_EQ(drawn(t), "compute 0-1; host 0-3; compute 3-4; ");
  EXPECT_EQ(waits(t, Lane::kHost), 2);
  EXPECT_EQ(t.by_name.at("mm").count, 2) << "on the device";
}

TEST_F(Timelines, ShortOperationsWaitForTheHost) {
  w.work(0.25).work(0.25).work(0.25);
  const Timeline t = w.played(StatedRates(1));
  EXPECT_EQ(t.step_s, 3.25);              // they begin at 1, 2 and 3
  EXPECT_EQ(waits(t, Lane::kHost), 2.5);  // 1, and twice 0.75
  EXPECT_EQ(busy(t, Lane::kCompute), 0.75);
}

TEST_F(Timelines, BehindLongOperationsTheHostIsHidden) {
  w.work(1).work(1).work(1);
  const Timeline t = w.played(StatedRates(0.25));
  EXPECT_EQ(t.step_s, 3.25);
  EXPECT_EQ(waits(t, Lane::kHost), 0.25);
}

TEST_F(Timelines, AHostThatWaitsForTheDeviceFallsBehind) {
  w.work(4).sync().work(1);
  const Timeline t = w.played(StatedRates(0.5));
  EXPECT_EQ(t.step_s, 6);  // 0.5 to 4.5; issued at 5
  EXPECT_EQ(waits(t, Lane::kHost), 1);

  TraceWriter copied;
  copied.work(3, kCopies);
  const auto done = copied.mark(kCopies);
  copied.hold_host(done).work(1);
  EXPECT_EQ(copied.played().step_s, 4);
  EXPECT_EQ(waits(copied.played(), Lane::kHost), 3);
}

TEST_F(Timelines, IssuingACollectiveTakesTheHostTimeToo) {
  const auto weights = w.gather(2);
  w.wait(weights).work(1);
  const Timeline t = w.played(StatedRates(0.5));
  EXPECT_EQ(drawn(t), "gather 0-2; compute 2-3; ");  // 0.5 to 2.5, and to 3.5
  EXPECT_EQ(t.step_s, 3.5);
  EXPECT_EQ(waits(t, Lane::kGather), 2.5);
}

TEST_F(Timelines, StreamsRunBesideEachOther) {
  w.work(2).work(5, kCopies).work(1);
  const Timeline t = w.played();
  EXPECT_EQ(t.step_s, 5);
  EXPECT_EQ(busy(t, Lane::kCompute), 3);
  EXPECT_EQ(busy(t, Lane::kCopy), 5);
}

TEST_F(Timelines, AStreamIsHeldUntilTheMarkOfAnother) {
  w.work(2);
  const auto computed = w.mark(kMain);
  w.hold(kCopies, computed).work(3, kCopies);
  const auto copied = w.mark(kCopies);
  w.work(1).hold(kMain, copied).work(1);
  const Timeline t = w.played();
  EXPECT_EQ(drawn(t), "compute 0-2; copy 2-5; compute 2-3; compute 5-6; ");
  EXPECT_EQ(waits(t, Lane::kCopy), 2);
  EXPECT_EQ(t.step_s, 6);
}

TEST_F(Timelines, AMarkKnowsNothingOfLaterWork) {
  w.work(1, kCopies);
  const auto early = w.mark(kCopies);
  w.work(7, kCopies).hold(kMain, early).work(1);
  EXPECT_EQ(waits(w.played(), Lane::kCopy), 1);
  EXPECT_EQ(busy(w.played(), Lane::kCompute), 1);
}

TEST_F(Timelines, AMarkBehindAWaitIsReachedAfterTheWait) {
  const auto weights = w.gather(5);
  w.wait(weights);
  const auto there = w.mark(kMain);
  w.hold(kCopies, there).work(2, kCopies);
  EXPECT_EQ(drawn(w.played()), "gather 0-5; copy 5-7; ");
}

TEST_F(Timelines, TheHostWaitsForWhatTheStreamWaitsFor) {
  const auto weights = w.gather(5);
  w.wait(weights).sync().work(2, kCopies);
  EXPECT_EQ(drawn(w.played()), "gather 0-5; copy 5-7; ");
}

TEST_F(Timelines, ACollectiveWaitsForItsStream) {
  w.work(1).work(4, kCopies);
  const auto behind_copies = w.gather(2, kCopies);
  w.wait(behind_copies, kCopies).work(1, kCopies);
  EXPECT_EQ(drawn(w.played()), "compute 0-1; copy 0-4; gather 4-6; copy 6-7; ");
}

TEST_F(Timelines, ACollectiveOfTheHostMakesTheHostWait) {
  w.work(5);
  const auto sum = w.issue(OperationKind::kAllReduce, 2, kMain, kOnHost);
  w.wait(sum).work(1);
  const Timeline t = w.played();
  EXPECT_EQ(drawn(t), "compute 0-5; compute 5-6; ");  // from 0 to 2, and on no lane of the device
  EXPECT_EQ(busy(t, Lane::kReduce), 0);
  EXPECT_EQ(waits(t, Lane::kReduce), 0);
}

TEST_F(Timelines, ACollectiveOfTheHostDoesNotWaitForThoseOfTheDevice) {
  (void)w.reduce(4);
  const auto sum = w.issue(OperationKind::kAllReduce, 1, kMain, kOnHost);
  w.wait(sum).work(1);
  EXPECT_EQ(drawn(w.played()), "reduce 0-4; compute 1-2; ");
}

TEST_F(Timelines, WithoutADeviceTheThreadThatTrainsComputesAndStandsStillForMessages) {
  const auto weights = w.gather(3);
  const auto sum = w.reduce(2);
  w.work(2).wait(weights).work(1).sync().wait(sum).work(1);
  const Timeline t = w.played(StatedRates(0, false));
  EXPECT_EQ(drawn(t), "gather 0-3; gather 3-5; compute 5-7; compute 7-8; compute 8-9; ");
  EXPECT_EQ(waits(t, Lane::kGather), 3);
  EXPECT_EQ(waits(t, Lane::kReduce), 2);
  EXPECT_EQ(waits(t, Lane::kHost) + waits(t, Lane::kCopy), 0);
  EXPECT_EQ(t.step_s, 9);
}

TEST_F(Timelines, AddsUpOperationsOfOneName) {
  w.work(2, kMain, 0).work(1, kMain, 1).work(4, kMain, 0);
  w.trace.works[0].cost = w.trace.works[2].cost = Cost::kProduct;
  const Timeline t = w.played();
  ASSERT_EQ(t.by_name.size(), 2U);
  const NameTotal& product = t.by_name.at("mm");
  EXPECT_EQ(product.seconds, 6);
  EXPECT_EQ(product.flops, 6);
  EXPECT_EQ(product.bytes, 48);
  EXPECT_EQ(product.count, 2);
  EXPECT_EQ(product.cost, Cost::kProduct);
  EXPECT_EQ(t.by_name.at("add").count, 1);
}

/// Passes of 2 (with a wait of 1), 3 (a wait of 2) and 5 seconds, and 1 second behind them.
TraceWriter three_passes() {
  TraceWriter w;
  w.begin_pass();
  const auto first = w.gather(1);
  w.wait(first).work(1).begin_pass();
  const auto second = w.gather(2);
  w.wait(second).work(1, kMain, 1).begin_pass().work(5).work(1);
  return w;
}

TEST_F(Timelines, RepeatsThePassInBetween) {
  w = three_passes();
  struct Repeated {
    std::int64_t passes;
    double step_s;
    double gather_wait_s;
    std::int64_t between;
  };
  for (const Repeated& c :
       {Repeated{2, 8, 1, 0}, Repeated{3, 11, 3, 1}, Repeated{4, 14, 5, 2}, Repeated{7, 23, 11, 5}}) {
    const Timeline t = w.played(StatedRates(), c.passes);
    EXPECT_EQ(t.step_s, c.step_s) << c.passes;
    EXPECT_EQ(waits(t, Lane::kGather), c.gather_wait_s) << c.passes;
    EXPECT_EQ(t.flops, static_cast<double>(7 + c.between)) << c.passes;
    EXPECT_EQ(busy(t, Lane::kCompute), static_cast<double>(7 + c.between)) << c.passes;
    EXPECT_EQ(busy(t, Lane::kGather), static_cast<double>(1 + 2 * c.between)) << c.passes;
    EXPECT_EQ(t.by_name.at("mm").count, 3) << c.passes;
    if (c.between == 0) {
      EXPECT_EQ(t.by_name.count("add"), 0U);
      continue;
    }
    EXPECT_EQ(t.by_name.at("add").count, c.between) << c.passes;
    EXPECT_EQ(t.by_name.at("add").seconds, static_cast<double>(c.between)) << c.passes;
    EXPECT_EQ(t.by_name.at("add").bytes, static_cast<double>(8 * c.between)) << c.passes;
  }
}

TEST_F(Timelines, DrawsOnlyThePassesThatWereRehearsed) {
  const Timeline t = three_passes().played(StatedRates(), 7);
  EXPECT_EQ(drawn(t), "gather 0-1; compute 1-2; gather 2-4; compute 4-5; compute 17-22; compute 22-23; ");
  EXPECT_EQ(t.left_out, 4);
  EXPECT_EQ(t.behind_left_out, 4U);
  EXPECT_EQ(three_passes().played(StatedRates(), 3).left_out, 0);
}

TEST_F(Timelines, PlaysTracesOfOneAndTwoPassesAsTheyAre) {
  TraceWriter one;
  one.begin_pass().work(2).work(1);
  EXPECT_EQ(one.played(StatedRates(), 1).step_s, 3);
  TraceWriter two;
  two.begin_pass().work(2).begin_pass().work(3).work(1);
  EXPECT_EQ(two.played(StatedRates(), 2).step_s, 6);
}

/// What a pass gathers first is issued at the end of the one before; `passes` of them.
TraceWriter passes_with_prefetch(int passes, double compute_s, double gather_s) {
  TraceWriter w;
  w.begin_pass();
  std::uint32_t next = w.gather(gather_s);
  for (int pass = 0; pass < passes; ++pass) {
    if (pass > 0) w.begin_pass();
    w.wait(next).work(compute_s);
    const auto own = w.gather(1);
    w.wait(own).work(compute_s);
    const auto sum = w.reduce(2);
    if (pass + 1 < passes) next = w.gather(gather_s);
    if (pass + 1 == passes) w.wait(sum).work(1);
  }
  return w;
}

TEST_F(Timelines, RepetitionsAreWhatTheWholeStepWouldBe) {
  // The gather that crosses from pass to pass is short, as long as the other things, and long.
  for (const auto& [compute_s, gather_s] : {std::pair{8.0, 2.0}, std::pair{0.25, 0.5}, std::pair{1.0, 4.0}}) {
    const Timeline whole = passes_with_prefetch(9, compute_s, gather_s).played(StatedRates(), 9);
    const Timeline repeated = passes_with_prefetch(3, compute_s, gather_s).played(StatedRates(), 9);
    EXPECT_EQ(repeated.step_s, whole.step_s) << compute_s << ", " << gather_s;
    EXPECT_EQ(waits(repeated, Lane::kGather), waits(whole, Lane::kGather)) << compute_s << ", " << gather_s;
    EXPECT_EQ(waits(repeated, Lane::kReduce), waits(whole, Lane::kReduce)) << compute_s << ", " << gather_s;
    EXPECT_EQ(repeated.busy_s, whole.busy_s) << compute_s << ", " << gather_s;
    EXPECT_EQ(repeated.flops, whole.flops) << compute_s << ", " << gather_s;
  }
}

TEST_F(Timelines, RepetitionsWhileTheHostIsTheBound) {
  TraceWriter whole;
  TraceWriter three;
  for (int pass = 0; pass < 9; ++pass) {
    whole.begin_pass().work(0.25).work(0.25);
    if (pass < 3) three.begin_pass().work(0.25).work(0.25);
  }
  const Timeline expected = whole.played(StatedRates(1), 9);
  const Timeline repeated = three.played(StatedRates(1), 9);
  EXPECT_EQ(expected.step_s, 18.25);
  EXPECT_EQ(repeated.step_s, expected.step_s);
  EXPECT_EQ(waits(repeated, Lane::kHost), waits(expected, Lane::kHost));
}

}  // namespace
}  // namespace echelon::forecast
