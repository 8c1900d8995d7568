#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/files/fs.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "base/trace_events.h"
#include "comm/local_communicator.h"
#include "profile/profiler.h"
#include "profile/rank_report.h"
#include "profile/rank_trace.h"
#include "profile/spans.h"
#include "profile/summary.h"
#include "support/matches.h"
#include "support/temp_dir.h"

// A whole profile of real ranks is tested in tests/e2e/profile.py.
namespace echelon::profile {
namespace {

Span span(SpanKind kind, const char* label, double begin_s, double end_s, double issued_s = 0) {
  Span made{.begin_s = begin_s, .end_s = end_s, .issued_s = issued_s, .kind = kind};
  made.bytes = issued_s > 0 ? 100 : 0;
  made.name(label);
  return made;
}

/// A step of 10 s: forward of 4 with a wait of 1 in it, backward of 3, optimizer of 2 with a wait of 0.5.
std::vector<Span> a_step() {
  std::vector<Span> spans{
      span(SpanKind::kGatherWait, "a", 1, 2),     span(SpanKind::kForward, "a", 1, 5),
      span(SpanKind::kBackward, "a", 5, 8),       span(SpanKind::kReduceWait, "end of the step", 8.5, 9),
      span(SpanKind::kOptimizer, "", 8, 10),      span(SpanKind::kStep, "7", 0, 10),
      span(SpanKind::kGather, "a", 0.5, 2, 0.25), span(SpanKind::kReduce, "a", 6, 9, 5.5)};
  sort_spans(spans);
  return spans;
}

const RankContext kContext{
    .rank = 1, .host = "n\"1", .clock = {.offset_s = 2, .uncertainty_s = 0.001}, .zero_s = -2};

TEST(Spans, EveryMomentBelongsToTheInnermost) {
  const std::vector<Span> spans = a_step();
  double at = 0;
  std::string order;
  for (const Piece& piece : innermost(spans)) {
    EXPECT_EQ(piece.begin_s, at);
    at = piece.end_s;
    order += std::string(word_of(spans[piece.span].kind)) + " " +
             std::to_string(piece.seconds()).substr(0, 3) + ", ";
  }
  EXPECT_EQ(at, 10);
  EXPECT_EQ(order,
            "step 1.0, gather wait 1.0, forward 3.0, backward 3.0, optimizer 0.5, reduce wait 0.5, optimizer "
            "1.0, ");
}

TEST(SpanLog, KeepsWhatFitsAndCountsTheRest) {
  SpanLog log(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&log] {
      for (int i = 0; i < 2; ++i) log.add(SpanKind::kForward, std::string(100, 'x'), 1, 2);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(log.spans().size(), 4U);
  EXPECT_EQ(log.dropped(), 2U);
  EXPECT_EQ(std::string(log.spans()[0].label), std::string(sizeof(Span::label) - 1, 'x'));
}

TEST(RankTrace, IsOnTheClockOfRankZero) {
  const std::vector<Kernel> kernels{{.name = "gemm", .stream = 7, .begin_s = 1, .end_s = 2}};
  const auto events = nlohmann::json::parse("[" + trace_of(kContext, a_step(), kernels) + "]");
  const auto find = [&events](const std::string& name) {
    for (const auto& event : events) {
      if (event["name"] == name) return event;
    }
    return nlohmann::json();
  };
  EXPECT_EQ(find("process_name")["args"]["name"], "rank 1 (n\"1)");
  EXPECT_EQ(find("step 7")["ts"], 0) << "0 here is -2 there, where the profile begins";
  EXPECT_EQ(find("forward a")["ts"], 1e6);
  EXPECT_EQ(find("forward a")["dur"], 4e6);
  EXPECT_EQ(find("gather a")["args"]["queued_us"], 0.25e6);
  EXPECT_EQ(find("gather a")["args"]["bytes"], 100);
  EXPECT_NE(find("gather a")["tid"], find("forward a")["tid"]);
  EXPECT_EQ(find("gemm")["ts"], 1e6);
  EXPECT_EQ(find("gemm")["tid"], 5) << "behind the lanes of spans";
}

TEST(RankTrace, LanesAreShortenedUntilTheyFit) {
  std::vector<Span> spans;
  for (int i = 0; i < 5000; ++i) spans.push_back(span(SpanKind::kForward, "unit", i, i + 0.9));
  const auto whole = lanes_of(kContext, spans, {}, 1 << 20);
  EXPECT_EQ(whole["lanes"][0]["spans"].size(), 5000U);
  EXPECT_EQ(whole["lanes"][0]["spans"][3], nlohmann::json({3e6, 0.9e6, "forward unit"}));
  for (const std::size_t bytes : {20'000, 1'000, 0}) {
    const auto lanes = lanes_of(kContext, spans, {}, bytes);
    if (bytes > 0) {
      EXPECT_LE(lanes.dump().size(), bytes);
    }
    const auto& drawn = lanes["lanes"][0]["spans"];
    EXPECT_EQ(drawn.front()[0], 0);
    EXPECT_NEAR(drawn.back()[0].get<double>() + drawn.back()[1].get<double>(), 4999.9e6, 1);
  }
}

TEST(RankTrace, WaitsAreGapsInTheLaneThatComputes) {
  const auto lanes = lanes_of(kContext, a_step(), {}, 10'000)["lanes"];
  EXPECT_EQ(lanes[0]["name"], "compute");
  EXPECT_EQ(lanes[0]["spans"].front(), nlohmann::json({2e6, 3e6, "forward a"}));
  EXPECT_EQ(lanes[0]["spans"].size(), 4U) << "forward, backward, the optimizer before and behind its wait";
  EXPECT_EQ(lanes[1]["spans"], nlohmann::json::parse(R"([[500000.0, 1500000.0, "gather a"]])"));
}

/// Of two streams, on a device that is busy from 1 to 4 and from 6 to 7.
std::vector<Kernel> some_kernels() {
  return {{.name = "gemm", .stream = 7, .begin_s = 1, .end_s = 3},
          {.name = "ncclDevKernel_AllGather_RING_LL", .stream = 9, .begin_s = 2, .end_s = 4},
          {.name = "gemm", .stream = 7, .begin_s = 6, .end_s = 6.5},
          {.name = "Memcpy DtoH (Device -> Pinned)", .stream = 8, .begin_s = 6.25, .end_s = 7}};
}

TEST(RankTrace, OfADeviceLanesShowKernelsInsteadOfTheHostsSpans) {
  const auto lanes = lanes_of(kContext, a_step(), some_kernels(), 10'000)["lanes"];
  ASSERT_EQ(lanes.size(), 3U) << lanes;
  EXPECT_EQ(lanes[0]["spans"], nlohmann::json::parse(R"([[1e6, 2e6, "gemm"], [6e6, 0.5e6, "gemm"]])"));
  EXPECT_EQ(lanes[1]["name"], "gather");
  EXPECT_EQ(lanes[2]["name"], "copy");
}

TEST(Profiler, LeavesOutTheStepWhoseSpansDoNotFitAndWhatFollows) {
  const test::TempDir folder;
  LocalCommunicator comm;
  Activity activity;
  Profiler profiler({1, 9}, comm, activity, folder.path(), nullptr);
  profiler.begin_step(1, 0.25);
  activity.spans()->add(SpanKind::kForward, "a", steady_now_s(), steady_now_s());
  profiler.step_ended(0.5);
  profiler.begin_step(2, 0.5);
  for (std::int64_t i = 0; i < kMostSpans; ++i)
    activity.spans()->add(SpanKind::kForward, "b", steady_now_s(), steady_now_s());
  profiler.step_ended(1);
  EXPECT_EQ(activity.spans(), nullptr);
  profiler.begin_step(3, 1);
  profiler.step_ended(2);
  profiler.write();
  const auto summary =
      nlohmann::json::parse(fs::read_file(folder.path() / "profile/summary.json", 1 << 20, Code::kUsage));
  EXPECT_EQ(summary["steps"], nlohmann::json({1, 1}));
  EXPECT_EQ(summary["engine_comm_wait_s"], 0.25);
  ASSERT_EQ(summary["costs"].size(), 1U) << summary["costs"];
  EXPECT_EQ(summary["costs"][0]["of"], "a");
  EXPECT_GT(summary["by_rank"][0]["dropped_spans"], 0);
}

/// A device that runs a kernel whenever `now()` is called.
class Device final : public KernelRecorder {
 public:
  explicit Device(std::vector<Kernel>& ran) : ran_(ran) {}
  void begin() override {}
  std::vector<Kernel> end() override { return ran_; }
  static void now(std::vector<Kernel>& ran, const char* name) {
    ran.push_back({.name = name, .begin_s = steady_now_s(), .end_s = steady_now_s() + 1e-6});
  }

 private:
  std::vector<Kernel>& ran_;
};

TEST(Profiler, LeavesOutWhatIsDoneInAPause) {
  const test::TempDir folder;
  LocalCommunicator comm;
  Activity activity;
  std::vector<Kernel> ran;
  Profiler profiler({1, 2}, comm, activity, folder.path(), std::make_unique<Device>(ran));
  double waited_s = 0;
  for (const std::int64_t step : {1, 2}) {
    profiler.begin_step(step, waited_s);
    activity.spans()->add(SpanKind::kGatherWait, "a", steady_now_s(), steady_now_s());
    Device::now(ran, "of a step");
    profiler.step_ended(waited_s += 0.25);
    profiler.pause();
    EXPECT_EQ(activity.spans(), nullptr);
    Device::now(ran, "of a validation");
    waited_s += 64;
    profiler.go_on();
    ASSERT_NE(activity.spans(), nullptr);
  }
  profiler.write();
  const auto summary =
      nlohmann::json::parse(fs::read_file(folder.path() / "profile/summary.json", 1 << 20, Code::kUsage));
  EXPECT_EQ(summary["engine_comm_wait_s"], 0.25);
  ASSERT_EQ(summary["beside"].size(), 1U) << summary["beside"];
  EXPECT_EQ(summary["beside"][0]["of"], "of a step");
}

/// A device whose profiler another program uses.
class NothingRecorded final : public KernelRecorder {
  void begin() override {}
  std::vector<Kernel> end() override { return {}; }
};

TEST(Profiler, HasNoPartOfARankWhoseKernelsWereNotRecorded) {
  const test::TempDir folder;
  LocalCommunicator comm;
  Activity activity;
  Profiler profiler({1, 1}, comm, activity, folder.path(), std::make_unique<NothingRecorded>());
  profiler.begin_step(1, 0);
  profiler.step_ended(0);
  EXPECT_MENTIONS(test::said_by([&] { profiler.write(); }), "the profile lacks rank 0", "uses CUPTI");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "profile/summary.json"));
}

nlohmann::json report(double factor, const std::vector<Kernel>& kernels = {}) {
  std::vector<Span> spans = a_step();
  for (Span& s : spans) {
    s.begin_s *= factor;
    s.end_s *= factor;
    if (s.issued_s > 0) s.issued_s *= factor;
  }
  RankContext context = kContext;
  context.steps = 1;
  context.engine_comm_wait_s = 1.5 * factor;
  return report_of(context, spans, kernels);
}

TEST(Summary, IsTheMeanOverRanks) {
  const auto summary = summarize({7, 7}, {report(1), report(3)}, nullptr);
  EXPECT_EQ(summary["step_s"], 20);
  EXPECT_EQ(summary["comm_wait_s"], 3);
  EXPECT_EQ(summary["engine_comm_wait_s"], 3);
  double sum = 0;
  for (const auto& [name, seconds] : summary["parts_s"].items()) sum += seconds.get<double>();
  EXPECT_DOUBLE_EQ(sum, 20);
  EXPECT_EQ(summary["costs"][0]["operation"], "backward") << summary["costs"];
  EXPECT_EQ(summary["costs"][0]["seconds"], 6);
  EXPECT_EQ(summary["beside"][0]["operation"], "reduce");
  EXPECT_EQ(summary["beside"][0]["seconds"], 6);
  EXPECT_EQ(summary["by_rank"][1]["work_s"], 25.5);
  EXPECT_TRUE(summary["plan"].contains("missing"));
  EXPECT_MENTIONS(summary_text(summary), "steps 7 to 7 of 2 ranks");
}

TEST(Summary, OfADeviceHasItsKernelsAndTheEnginesWaits) {
  const auto forecast = nlohmann::json::parse(
      R"({"predicted": {"step_time_s": 9.5, "waits_s": {"gather": 1, "reduce": 0.25}}})");
  const auto summary = summarize({7, 7}, {report(2, some_kernels())}, forecast);
  EXPECT_EQ(summary["device_busy_s"], 4);
  EXPECT_EQ(summary["comm_wait_s"], 3);
  std::string kernels;
  for (const auto& row : summary["beside"]) {
    if (row["operation"] == "kernel")
      kernels += str(row["of"].get<std::string>(), ' ', row["seconds"].get<double>(), ' ',
                     row["count"].get<double>(), '\n');
  }
  EXPECT_EQ(kernels,
            "gemm 2.5 2\nncclDevKernel_AllGather_RING_LL 2 1\nMemcpy DtoH (Device -> Pinned) 0.75 1\n");
  EXPECT_EQ(summary["plan"]["differences"].size(), 2U);
  EXPECT_MENTIONS(summary_text(summary), "the device was busy for 4000.000 ms of a step, 20.0 %");
}

TEST(Summary, ComparesWithAForecastThatHasTimes) {
  const auto forecast = nlohmann::json::parse(
      R"({"predicted": {"step_time_s": 9.5, "busy_s": {"compute": 4.0}, "waits_s": {"gather": 1, "reduce": 0.25}}})");
  const auto plan = summarize({7, 7}, {report(1)}, forecast)["plan"];
  EXPECT_EQ(plan["differences"][0],
            nlohmann::json::parse(
                R"({"what": "compute", "planned_s": 4.0, "measured_s": 7.5, "difference_s": 3.5})"));
  EXPECT_EQ(plan["differences"].size(), 4U);
  for (const char* without : {R"({"predicted": {"memory": {}}})", R"({"predicted": 3})", "[]", "{}"})
    EXPECT_TRUE(summarize({7, 7}, {report(1)}, nlohmann::json::parse(without))["plan"].contains("missing"));
}

}  // namespace
}  // namespace echelon::profile
