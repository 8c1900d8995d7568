#include "profile/profiler.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/caught.h"
#include "base/error.h"
#include "base/files/new_file.h"
#include "base/files/own_file.h"
#include "base/foreign_json.h"
#include "base/foreign_text.h"
#include "base/log.h"
#include "base/process/process.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "base/trace_events.h"
#include "comm/exchange.h"
#include "profile/spans.h"
#include "profile/summary.h"

namespace echelon::profile {
namespace {

constexpr std::uint64_t kMostPartBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMostForecastBytes = std::uint64_t{64} << 20;
/// The limits of lanes.json: its bytes, and its ranks, which are spread evenly.
constexpr std::size_t kLanesBytes = 200'000;
constexpr int kLanesRanks = 16;
constexpr std::size_t kAroundLanesBytes = 100;

bool in_lanes(int rank, int ranks) {
  const int every = (ranks + kLanesRanks - 1) / kLanesRanks;
  return rank % every == 0;
}

/// The file that a rank leaves for rank 0: a line of JSON, then its events of trace.json.
std::filesystem::path part_of(const std::filesystem::path& folder, std::size_t rank) {
  return folder / str("rank-", rank, ".part");
}

std::string option(const ProfileRange& range) {
  return str("--profile ", range.first, "..", range.last);
}

/// trace.json, piece by piece.
class TraceFile {
 public:
  explicit TraceFile(std::filesystem::path path)
      : path_(std::move(path)), file_(fs::draft_name(path_), Code::kEnvironment) {
    file_.append(TraceEvents::kHead);
  }
  void add(std::string_view events) {
    if (std::exchange(any_, true)) file_.append(",\n");
    file_.append(events);
  }
  void finish() {
    file_.append(TraceEvents::kTail);
    file_.close();
    file_.rename(path_);
  }

 private:
  std::filesystem::path path_;
  fs::NewFile file_;
  bool any_ = false;
};

}  // namespace

ProfileRange ahead(const ProfileRange& wanted, std::int64_t done, std::int64_t last, bool lead) {
  if (!wanted.wanted()) return {};
  if (wanted.first > last) {
    throw Error(Code::kUsage, option(wanted), ": the run ends with step ", last,
                "; expected steps before that");
  }
  if (wanted.last > done) return {std::max(wanted.first, done + 1), wanted.last};
  if (lead)
    log::warn(str(option(wanted), ": these steps are done already (the run goes on from step ", done,
                  "), so there is no profile"));
  return {};
}

Profiler::Profiler(const ProfileRange& range, Communicator& comm, Activity& activity,
                   std::filesystem::path run_folder, std::unique_ptr<KernelRecorder> kernels)
    : range_(range),
      comm_(comm),
      activity_(activity),
      run_folder_(std::move(run_folder)),
      folder_(run_folder_ / "profile"),
      kernels_(std::move(kernels)) {}

Profiler::~Profiler() {
  activity_.record(nullptr);
}

void Profiler::begin_step(std::int64_t step, double comm_wait_s) {
  if (written_ || step < range_.first || step > range_.last) return;
  if (!log_) {
    begin_kernels();
    log_ = std::make_shared<SpanLog>(kMostSpans);
    first_ = step;
    began_s_ = steady_now_s();
    activity_.record(log_);
  }
  comm_wait_before_s_ = comm_wait_s;
  step_began_s_ = steady_now_s();
}

void Profiler::pause() {
  if (!is_recording()) return;
  activity_.record(nullptr);
  pauses_.push_back({.begin_s = steady_now_s()});
}

void Profiler::go_on() {
  if (!is_recording()) return;
  pauses_.back().end_s = steady_now_s();
  activity_.record(log_);
}

void Profiler::begin_kernels() {
  if (!kernels_) return;
  try {
    kernels_->begin();
  } catch (...) {
    log::warn(str("the profile lacks the kernels of rank ", comm_.rank(), ": ", caught()));
    kernels_.reset();
  }
}

void Profiler::step_ended(double comm_wait_s) {
  if (!is_recording()) return;
  const double now_s = steady_now_s();
  log_->add(SpanKind::kStep, str(first_ + steps_), step_began_s_, now_s);
  full_ = log_->dropped() > 0;
  if (full_) return activity_.record(nullptr);
  ended_s_ = now_s;
  comm_wait_s_ += comm_wait_s - comm_wait_before_s_;
  ++steps_;
}

void Profiler::write() {
  activity_.record(nullptr);
  written_ = true;
  const std::vector<ClockOffset> clocks = measure_clocks(comm_);
  RankContext context{.rank = comm_.rank(),
                      .host = host_name(),
                      .clock = clocks[static_cast<std::size_t>(comm_.rank())],
                      .steps = steps_,
                      .engine_comm_wait_s = comm_wait_s_,
                      .dropped_spans = log_->dropped()};
  const std::vector<double> begins = gather_values(comm_, began_s_ - context.clock.offset_s, "profile");
  context.zero_s = *std::ranges::min_element(begins);
  std::string trouble;
  try {
    write_part(context);
  } catch (...) {  // whatever it is: the others wait for a word
    trouble = caught();
  }
  const auto troubles = gather_values(comm_, trouble, "profile");
  if (comm_.rank() != 0) return;
  try {
    merge(troubles);
  } catch (const std::exception& e) {
    log::warn(str("the profile is not written: ", e.what()));
  }
}

void Profiler::write_part(const RankContext& context) {
  fs::make_directories(folder_, Code::kEnvironment);
  std::vector<Kernel> kernels = kernels_ ? kernels_->end() : std::vector<Kernel>{};
  if (kernels_ && kernels.empty()) {
    throw Error(
        Code::kEnvironment,
        "PyTorch's profiler recorded no kernel of the device; expected that no other program, such as "
        "nsys, uses CUPTI");
  }
  if (steps_ == 0) throw Error(Code::kEnvironment, "one step has more than ", kMostSpans, " spans");
  std::vector<Span> spans = log_->spans();
  // Spans that began before the recording have a recorded end only.
  std::erase_if(spans, [this](const Span& span) {
    return span.begin_s < began_s_ || (span.issued_s > 0 && span.issued_s < began_s_);
  });
  std::erase_if(kernels, [this](const Kernel& kernel) {
    return std::ranges::any_of(pauses_, [&kernel](const Pause& pause) {
      return pause.begin_s <= kernel.begin_s && kernel.begin_s < pause.end_s;
    });
  });
  if (full_) {
    std::erase_if(spans, [this](const Span& span) { return span.begin_s >= ended_s_; });
    std::erase_if(kernels, [this](const Kernel& kernel) { return kernel.begin_s >= ended_s_; });
  }
  sort_spans(spans);
  nlohmann::json mine{{"report", report_of(context, spans, kernels)}};
  if (in_lanes(comm_.rank(), comm_.size())) {
    const auto drawn = static_cast<std::size_t>(std::min(comm_.size(), kLanesRanks));
    mine["lanes"] = lanes_of(context, spans, kernels, kLanesBytes / drawn - kAroundLanesBytes);
  }
  fs::replace_file(part_of(folder_, static_cast<std::size_t>(comm_.rank())),
                   str(json_text(mine, -1), '\n', trace_of(context, spans, kernels)), Code::kEnvironment);
}

void Profiler::merge(const std::vector<std::string>& troubles) const {
  std::vector<nlohmann::json> ranks;
  nlohmann::json lanes = nlohmann::json::array();
  TraceFile trace(folder_ / "trace.json");
  for (std::size_t rank = 0; rank < troubles.size(); ++rank) {
    if (!troubles[rank].empty()) {
      log::warn(str("the profile lacks rank ", rank, ": ", troubles[rank]));
      continue;
    }
    const std::filesystem::path part = part_of(folder_, rank);
    const std::string text = fs::read_own_file(part, kMostPartBytes, Code::kEnvironment);
    const std::size_t end = text.find('\n');
    nlohmann::json report =
        parse_foreign_json(std::string_view(text).substr(0, end), part.string(), Code::kEnvironment);
    ranks.push_back(std::move(report["report"]));
    if (report.contains("lanes")) lanes.push_back(std::move(report["lanes"]));
    trace.add(std::string_view(text).substr(end + 1));
    fs::remove_tree(part, Code::kEnvironment);
  }
  if (ranks.empty()) return;
  trace.finish();
  const ProfileRange recorded{first_, first_ + steps_ - 1};
  nlohmann::json forecast;
  if (const auto file = run_folder_ / "forecast.json"; std::filesystem::exists(file))
    forecast = read_foreign_json(fs::read_own_file(file, kMostForecastBytes, Code::kEnvironment)).value;
  const nlohmann::json summary = summarize(recorded, ranks, forecast);
  fs::replace_file(folder_ / "summary.json", summary.dump(2) + "\n", Code::kEnvironment);
  fs::replace_file(folder_ / "summary.txt", summary_text(summary), Code::kEnvironment);
  const nlohmann::json lanes_file{{"steps", {recorded.first, recorded.last}}, {"ranks", std::move(lanes)}};
  fs::replace_file(folder_ / "lanes.json", lanes_file.dump() + "\n", Code::kEnvironment);
  log::info(str("profile of steps ", recorded.first, " to ", recorded.last, ": ",
                (folder_ / "summary.txt").string()));
}

}  // namespace echelon::profile
