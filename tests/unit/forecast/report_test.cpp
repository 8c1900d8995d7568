#include "forecast/report.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/str.h"
#include "support/matches.h"

namespace echelon::forecast {
namespace {

constexpr std::int64_t kReportMiB = 1 << 20;

/// A report about invented numbers.
struct Reported {
  ReportTitle title{.recipe = "llama-8b",
                    .strategy = "full_shard",
                    .device = "NVIDIA H100 SXM5 80 GB",
                    .network = "EFA",
                    .micro_batch = 2};
  OutlookOptions options{.job = {.ranks = 16, .ranks_per_node = 8},
                         .steps = 1000,
                         .context_bytes = 100.0 * kReportMiB,
                         .node_days_to_failure = 50};
  Rehearsed rehearsed{.passes = 4,
                      .memory = {.weights = 30 * kReportMiB,
                                 .gradients = 31 * kReportMiB,
                                 .optimizer = 32 * kReportMiB,
                                 .averaged = 33 * kReportMiB,
                                 .gathered = 3 * kReportMiB,
                                 .whole_gradients = 4 * kReportMiB,
                                 .staging = 5 * kReportMiB,
                                 .pool = 14 * kReportMiB,
                                 .device_peak = 200 * kReportMiB,
                                 .device_reserved = 220 * kReportMiB,
                                 .host_peak = 7 * kReportMiB},
                      .model = "llama",
                      .parameters = 8'030'000'000,
                      .units = 34,
                      .largest_unit = 1002 * kReportMiB,
                      .groups = "1 group of 16 ranks",
                      .model_flops = 4e12,
                      .tokens_per_sample = 2048,
                      .samples = 128,
                      .checkpoint_bytes = 96 * kReportMiB,
                      .rank_checkpoint_bytes = 6 * kReportMiB};
  Outlook outlook{
      .tensor_peak_bytes = 200.0 * kReportMiB,
      .peak_bytes = 320.0 * kReportMiB,
      .limit_bytes = 400.0 * kReportMiB,
      .peak_place = "backward layers.3",
      .traffic = {.sent = 16.0 * kReportMiB,
                  .by_operation = {{"all_gather", 12.0 * kReportMiB}, {"all_reduce", 4.0 * kReportMiB}},
                  .peer = 14.0 * kReportMiB,
                  .network = 2.0 * kReportMiB},
      .save_s = 30,
      .stall_s = 0.25};

  Reported() {
    rehearsed.step.names = {"mm", "all \"gather\"", "from_host"};
    rehearsed.step.places = {"forward layers.0", "backward layers.0", "update"};
    Outlook::Time time;
    time.timeline.step_s = 4;
    time.timeline.busy_s = {0, 3, 0.4, 2, 1};
    time.timeline.wait_s[index_of(Lane::kGather)] = 0.5;
    time.timeline.flops = 6e12;
    time.timeline.by_name["mm"] = {.seconds = 2, .flops = 5e12, .bytes = 8, .count = 3};
    time.timeline.by_name["add"] = {.seconds = 0.5, .flops = 0, .bytes = 16, .count = 2};
    time.timeline.spans = {{Lane::kGather, 0, 1, 1, 0},
                           {Lane::kCompute, 1, 3, 0, 0},
                           {Lane::kCompute, 3, 3.5, 0, 1},
                           {Lane::kCopy, 0.5, 1, 2, 2}};
    time.step_s = 4;
    time.samples_per_s = 32;
    time.tokens_per_s = 65'536;
    time.mfu = 0.4;
    time.hfu = 0.6;
    time.run_s = 4000;
    time.device_hours = 18.5;
    time.goodput = 0.96;
    time.save_every_s = 540;
    time.limit = "matrix products 50 %";
    outlook.time = time;
  }

  [[nodiscard]] std::string text() const { return text_report(title, rehearsed, options, outlook); }
  [[nodiscard]] nlohmann::json json() const {
    return nlohmann::json::parse(json_report(title, rehearsed, options, outlook));
  }
};

/// Lines of the report that begin with `beginning`.
std::string line_of(const std::string& report, const std::string& beginning) {
  const std::size_t begin = ("\n" + report).find("\n" + beginning);
  if (begin == std::string::npos) return "no line begins with '" + beginning + "' in:\n" + report;
  return report.substr(begin, report.find('\n', begin) - begin);
}

struct OfReported : ::testing::Test {
  Reported reported;
};
using JsonReport = OfReported;
using TextReport = OfReported;
using Picture = OfReported;

TEST_F(JsonReport, HasTheKeysThatProgramsRead) {
  const nlohmann::json json = Reported().json();
  EXPECT_EQ(json.at("fits"), true);
  const nlohmann::json& memory = json.at("memory");
  EXPECT_EQ(memory.at("peak_bytes"), 320 * kReportMiB);
  EXPECT_EQ(memory.at("tensor_peak_bytes"), 200 * kReportMiB);
  EXPECT_EQ(memory.at("limit_bytes"), 400 * kReportMiB);
  EXPECT_EQ(memory.at("peak_place"), "backward layers.3");
  // What is neither kept (126 MiB) nor in the pool.
  const nlohmann::json categories{
      {"weights", 30 * kReportMiB},  {"gradients", 31 * kReportMiB}, {"optimizer", 32 * kReportMiB},
      {"averaged", 33 * kReportMiB}, {"gathered", 3 * kReportMiB},   {"whole_gradients", 4 * kReportMiB},
      {"staging", 5 * kReportMiB},   {"pool", 14 * kReportMiB},      {"activations", 60 * kReportMiB}};
  EXPECT_EQ(memory.at("categories"), categories);
  EXPECT_EQ(json.at("step_time_s"), 4);
  EXPECT_EQ(json.at("mfu"), 0.4);
  EXPECT_EQ(json.at("tokens_per_s"), 65'536);
  const nlohmann::json& traffic = json.at("traffic");
  EXPECT_EQ(traffic.at("sent_bytes"), 16 * kReportMiB);
  EXPECT_EQ(traffic.at("peer_bytes"), 14 * kReportMiB);
  EXPECT_EQ(traffic.at("network_bytes"), 2 * kReportMiB);
  EXPECT_EQ(traffic.at("by_operation").at("all_gather"), 12 * kReportMiB);
}

TEST_F(JsonReport, ListsOperationsByTheirTime) {
  const nlohmann::json json = Reported().json();
  const nlohmann::json& operations = json.at("operations");
  ASSERT_EQ(operations.size(), 2U);
  EXPECT_EQ(operations[0].at("name"), "mm");
  EXPECT_EQ(operations[0].at("count"), 3);
  EXPECT_EQ(operations[0].at("seconds"), 2);
  EXPECT_EQ(operations[1].at("name"), "add");
  EXPECT_EQ(json.at("waits_s").at("gather"), 0.5);
  EXPECT_EQ(json.at("busy_s").at("compute"), 3);
}

TEST_F(JsonReport, LeavesOutTimesThatAreUnknown) {
  reported.outlook.time.reset();
  reported.outlook.limit_bytes = 300.0 * kReportMiB;
  const nlohmann::json json = reported.json();
  EXPECT_FALSE(json.contains("step_time_s"));
  EXPECT_FALSE(json.contains("mfu"));
  EXPECT_EQ(json.at("fits"), false);
}

TEST_F(JsonReport, HasTheTreeOfUnits) {
  reported.rehearsed.unit_tree = {"root", "  layers.0"};
  EXPECT_EQ(reported.json().at("unit_tree"), nlohmann::json({"root", "  layers.0"}));
}

TEST_F(TextReport, SaysWhatARunWouldBeLike) {
  const std::string text = "\n" + Reported().text();
  for (const char* line :
       {"model llama: 8,030,000,000 parameters in 34 units, largest 1002.0 MiB gathered",
        "full_shard over 1 group of 16 ranks, 2 nodes of 8, NVIDIA H100 SXM5 80 GB, EFA",
        "batch: 2 per rank x 16 ranks x 4 passes = 128 samples a step, 262,144 tokens",
        "memory per rank: 320.0 MiB at most of 400.0 MiB: fits; most during backward layers.3",
        "  kept: weights 30.0 MiB, gradients 31.0 MiB, optimizer 32.0 MiB, averaged weights 33.0 MiB; "
        "together 126.0 MiB",
        "  at most: gathered weights 3.0 MiB, whole gradients 4.0 MiB, staging 5.0 MiB (pool 14.0 MiB), "
        "activations and temporaries 60.0 MiB",
        "  all tensors 200.0 MiB, taken for them 220.0 MiB, beside them 100.0 MiB; host memory 7.0 MiB",
        "sent by a rank per step: 16.0 MiB, of it 2.0 MiB to other nodes; all_gather 12.0 MiB; all_reduce "
        "4.0 MiB",
        "step: 4.00 s, 32.00 samples/s, 65,536 tokens/s (4,096 per rank)", "  limits: matrix products 50 %",
        "  1.00 TFLOP/s per rank of the model (MFU 40.0 %), 1.50 done with recomputation (60.0 %)",
        "  busy: compute 75.0 %, copies 10.0 %, gathers 50.0 %, reductions 25.0 %",
        "run: 1000 steps in 66.7 min, 18.5 device-hours; with one failure per 50 node-days 96.0 % of the "
        "time trains, if a checkpoint is saved every 9.0 min",
        "checkpoint: 96.0 MiB, 30.00 s at 953.7 MiB/s per node, training waits 250.0 ms"})
    EXPECT_MENTIONS(text, str("\n", line, "\n"));
  EXPECT_EQ(text.back(), '\n');
}

TEST_F(TextReport, SaysThatTheStepsOfEpochsAreUnknown) {
  reported.options.steps = 0;
  reported.outlook.time->run_s = 0;
  EXPECT_MENTIONS(line_of(reported.text(), "run"),
                  "run: its number of steps is known only with the data; with");
  EXPECT_TRUE(reported.json().at("run_s").is_null());
  EXPECT_TRUE(reported.json().at("device_hours").is_null());
}

TEST_F(TextReport, SaysWhatItsTimesAreComparedWith) {
  EXPECT_FALSE(test::mentions(reported.text(), "one H100"));
  reported.title.unproven = true;
  EXPECT_EQ(line_of(reported.text(), "  forecast"), "  forecast; compared with runs on one H100 only");
}

TEST_F(TextReport, SaysThatSavesAreDueBeforeTheLastHasEnded) {
  reported.outlook.time->save_due_s = 29.75;
  EXPECT_FALSE(test::mentions(reported.text(), "left out"));
  reported.outlook.time->save_due_s = 9.75;
  EXPECT_MENTIONS(line_of(reported.text(), "checkpoint"),
                  "waits 250.0 ms; the next is due after 10.00 s, so some are left out: save less often");
  reported.options.waits_for_saves = true;
  EXPECT_FALSE(test::mentions(reported.text(), "left out"));
}

TEST_F(TextReport, TellsWhatCheckpointsInMemoryTakeOfANode) {
  reported.outlook.node_memory_saves = 192.0 * kReportMiB;
  EXPECT_EQ(
      line_of(reported.text(), "checkpoint"),
      "checkpoint: 96.0 MiB, 30.00 s at 953.7 MiB/s per node, training waits 250.0 ms; in the memory of each "
      "node 192.0 MiB");
  EXPECT_EQ(reported.json().at("checkpoint").at("node_memory_bytes"), 192.0 * kReportMiB);
}

TEST_F(TextReport, SaysWhatDoesNotFit) {
  reported.outlook.limit_bytes = 300.0 * kReportMiB;
  EXPECT_EQ(line_of(reported.text(), "memory"),
            "memory per rank: 320.0 MiB at most of 300.0 MiB: does NOT fit; most during backward layers.3");
}

TEST_F(TextReport, OfCpuRanksHasNoTimes) {
  reported.outlook.time.reset();
  reported.outlook.limit_bytes = 0;
  reported.title.network = "";
  reported.title.device = "CPU ranks";
  reported.options.job = {.ranks = 1, .ranks_per_node = 1};
  const std::string text = reported.text();
  EXPECT_EQ(line_of(text, "time: ").substr(0, 5), "time:");
  EXPECT_EQ(line_of(text, "full_shard"), "full_shard over 1 group of 16 ranks, 1 node of 1, CPU ranks");
  EXPECT_EQ(line_of(text, "memory"), "memory per rank: 320.0 MiB at most; most during backward layers.3");
  EXPECT_FALSE(test::mentions(text, "\nstep:"));
  EXPECT_FALSE(test::mentions(text, "to other nodes"));
}

TEST_F(TextReport, SaysWhatLiesInHostMemory) {
  reported.rehearsed.memory.offloaded = true;
  const std::string text = reported.text();
  EXPECT_EQ(line_of(text, "  in host memory").substr(0, 35), "  in host memory: weights 30.0 MiB,");
  EXPECT_EQ(line_of(text, "  all tensors"),
            "  all tensors 200.0 MiB, taken for them 220.0 MiB, beside them 100.0 MiB; host memory 7.0 MiB");
  // Only the pool lies beside them on the device.
  EXPECT_MENTIONS(line_of(text, "  at most"), "activations and temporaries 186.0 MiB");
}

TEST(PerfettoTrace, HasEveryOperationOnItsLane) {
  const Reported reported;
  const nlohmann::json json =
      nlohmann::json::parse(perfetto_trace(reported.rehearsed, reported.outlook.time->timeline));
  std::vector<std::string> lanes;
  std::vector<nlohmann::json> spans;
  for (const nlohmann::json& event : json.at("traceEvents")) {
    if (event.at("ph") == "M") lanes.push_back(event.at("args").at("name"));
    if (event.at("ph") == "X") spans.push_back(event);
  }
  EXPECT_EQ(lanes, std::vector<std::string>({"host", "compute", "copy", "gather", "reduce"}));
  ASSERT_EQ(spans.size(), 4U);
  EXPECT_EQ(spans[0].at("name"), "all \"gather\"");
  EXPECT_EQ(spans[0].at("tid"), 3);
  EXPECT_FALSE(spans[0].contains("args"));
  EXPECT_EQ(spans[1].at("name"), "mm");
  EXPECT_EQ(spans[1].at("tid"), 1);
  EXPECT_EQ(spans[1].at("ts"), 1e6);  // microseconds
  EXPECT_EQ(spans[1].at("dur"), 2e6);
  EXPECT_EQ(spans[1].at("args").at("place"), "forward layers.0");
  EXPECT_EQ(spans[3].at("args").at("place"), "update");
}

TEST_F(Picture, DrawsLanesInColors) {
  const std::string svg = picture(reported.title, reported.rehearsed, reported.outlook);
  EXPECT_EQ(svg.rfind("<svg ", 0), 0U);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
  EXPECT_MENTIONS(svg, "llama-8b: one step on NVIDIA H100 SXM5 80 GB");
  std::size_t drawn_rectangles = 0;
  for (std::size_t at = svg.find("<rect x="); at != std::string::npos; at = svg.find("<rect x=", at + 1))
    ++drawn_rectangles;
  EXPECT_EQ(drawn_rectangles, 4U);
  // 880 for 3.5 seconds; the forward's two begin a second after the gather.
  EXPECT_MENTIONS(svg, "<rect x=\"90.0\" y=\"128.0\" width=\"251.4\"",
                  "<rect x=\"341.4\" y=\"60.0\" width=\"502.9\"");
}

TEST_F(Picture, HasATimeAxisAndADarkForm) {
  const std::string svg = picture(reported.title, reported.rehearsed, reported.outlook);
  EXPECT_MENTIONS(svg, ">0 s</text>", ">3.5 s</text>");
  EXPECT_FALSE(test::mentions(svg, ">4 s</text>"));
  EXPECT_MENTIONS(svg, "@media (prefers-color-scheme: dark)");
  EXPECT_FALSE(test::mentions(svg, "left-out\"")) << "all is drawn";
}

TEST_F(Picture, MarksThePassesThatAreLeftOut) {
  Timeline& timeline = reported.outlook.time->timeline;
  timeline.left_out = 62;
  timeline.behind_left_out = timeline.spans.size();
  timeline.spans.push_back({Lane::kGather, 103, 104, 1, 0});
  timeline.spans.push_back({Lane::kCompute, 103.5, 107.5, 0, 0});
  const std::string svg = picture(reported.title, reported.rehearsed, reported.outlook);
  // 100 of 107.5 seconds are left out, and take 120 of 880: the others take 760.
  EXPECT_MENTIONS(svg, "<rect class=\"left-out\" x=\"444.7\" y=\"60.0\" width=\"120.0\"",
                  ">62 equal passes</text>", "<rect x=\"564.7\" y=\"60.0\" width=\"405.3\"");
  const std::string trace = perfetto_trace(reported.rehearsed, timeline);
  EXPECT_MENTIONS(trace, "62 equal passes");
}

TEST_F(Picture, EscapesTitles) {
  reported.title.device = "mine & <yours>";
  const std::string svg = picture(reported.title, reported.rehearsed, reported.outlook);
  EXPECT_MENTIONS(svg, "mine &amp; &lt;yours&gt;");
}

TEST_F(Picture, OfUnknownTimesIsNone) {
  reported.outlook.time.reset();
  EXPECT_EQ(picture(reported.title, reported.rehearsed, reported.outlook), "");
}

}  // namespace
}  // namespace echelon::forecast
