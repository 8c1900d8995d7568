#include "report/record/run_record.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/files/disk.h"
#include "base/number.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "checkpoint/format/names.h"
#include "report/record/files.h"

namespace echelon::report {
namespace {

constexpr std::uint64_t kMostLedger = std::uint64_t{64} << 20;
constexpr std::uint64_t kMostRecipe = std::uint64_t{1} << 20;
constexpr std::size_t kMostStarts = 5000;
constexpr std::size_t kMostCheckpoints = 20'000;
constexpr std::size_t kMostBuckets = 40;
/// A running start rewrites goodput.json at least every 5 s; a shared disk may show it late.
constexpr double kSilence_s = 60;

constexpr std::array kFiles{"metrics.jsonl", "goodput.json", "recipe.yaml", "forecast.json",
                            "logs/rank-0.log"};

bool is_folder(const fs::Path& path) {
  struct stat info {};
  return fs::disk().lstat((path / ".").c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool has_entry(const fs::Path& path) {
  struct stat info {};
  return fs::disk().lstat(path.c_str(), &info) == 0;
}

Start start_of(const nlohmann::json& json) {
  const auto count = [&](const char* name) {
    constexpr double kMost = 1e15;
    return static_cast<std::int64_t>(std::clamp(number_in(json, name).value_or(0), 0.0, kMost));
  };
  Start start{.job = text_in(json, "job"),
              .restart = count("restart"),
              .ranks = count("ranks"),
              .began_s = number_in(json, "began").value_or(0),
              .ended_s = number_in(json, "ended").value_or(0),
              .end = text_in(json, "end"),
              .first_step = count("first_step"),
              .last_step = count("last_step"),
              .saved_step = count("saved_step")};
  const nlohmann::json& in_place = member_of(json, "in_place");
  start.in_place = in_place.is_boolean() && in_place.get<bool>();
  start.ended_s = std::max(start.ended_s, start.began_s);
  const nlohmann::json& seconds = member_of(json, "seconds");
  if (!seconds.is_object()) return start;
  for (const auto& [name, value] : seconds.items()) {
    const bool usable = value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= 0;
    if (usable && start.seconds.size() < kMostBuckets) start.seconds.emplace_back(name, value.get<double>());
  }
  return start;
}

std::vector<Start> read_starts(const fs::Path& run, Missing& missing) {
  std::vector<Start> starts;
  const nlohmann::json read = read_json_if_there(run / "goodput.json", kMostLedger, missing);
  const nlohmann::json& list = member_of(read, "starts");
  std::size_t odd = 0;
  for (std::size_t i = 0; list.is_array() && i < list.size() && starts.size() < kMostStarts; ++i) {
    const bool usable = number_in(list[i], "began").value_or(-1) > 0 && number_in(list[i], "ended");
    if (usable)
      starts.push_back(start_of(list[i]));
    else
      ++odd;
  }
  if (odd > 0) missing.push_back(str("goodput.json has ", odd, " starts without a begin or an end"));
  // In the order of actions; the file's order is that, unless somebody changed it.
  std::ranges::stable_sort(starts, {}, &Start::began_s);
  return starts;
}

void read_checkpoints(RunRecord& run) {
  const fs::Path folder = run.folder / "checkpoints";
  for (const std::string& name : names_in(folder, run.missing)) {
    const auto step = checkpoint::parse_step_folder(name);
    if (!step || run.checkpoints.size() >= kMostCheckpoints) continue;
    const auto committed = changed_at(folder / name / checkpoint::kCommitFile);
    if (committed) {
      run.checkpoints.push_back({step->step, name, *committed});
    } else if (run.unfinished.size() < kMostBuckets) {
      run.unfinished.push_back(name);
    }
  }
  std::ranges::stable_sort(run.checkpoints, {}, &Checkpoint::step);
}

/// A number of forecast.json, and its places in the two halves of the file.
struct Compared {
  const char* name;
  const char* group;
  bool bytes;
  const char* predicted;
  const char* measured;
};
constexpr std::array kCompared{
    Compared{"all tensors at most", "memory", true, "/memory/tensor_peak_bytes", "/memory/tensor_peak_bytes"},
    Compared{"process at most", "memory", true, "/memory/peak_bytes", "/memory/process_peak_bytes"},
    Compared{"sent by a rank in a step", "traffic", true, "/traffic/sent_bytes", "/sent_bytes"},
    Compared{"step", "time", false, "/step_time_s", "/step_time_s"},
    Compared{"a save", "checkpoint", false, "/checkpoint/seconds", "/checkpoint/seconds"},
    Compared{"of it, training waits", "checkpoint", false, "/checkpoint/stall_s", "/checkpoint/stall_s"}};

void read_forecast(RunRecord& run) {
  const nlohmann::json read = read_json_if_there(run.folder / "forecast.json", kMostLedger, run.missing);
  const nlohmann::json& predicted = member_of(read, "predicted");
  const nlohmann::json& measured = member_of(read, "measured");
  for (const Compared& row : kCompared) {
    Prediction one{.name = row.name,
                   .group = row.group,
                   .bytes = row.bytes,
                   .predicted = number_at(predicted, row.predicted),
                   .measured = number_at(measured, row.measured)};
    if (one.predicted || one.measured) run.predictions.push_back(std::move(one));
  }
  const nlohmann::json& categories = member_of(member_of(predicted, "memory"), "categories");
  const nlohmann::json& found = member_of(member_of(measured, "memory"), "categories");
  const nlohmann::json& named = found.is_object() ? found : categories;
  if (!named.is_object()) return;
  std::size_t count = 0;
  for (const auto& [name, value] : named.items()) {
    if (++count > kMostBuckets) break;
    run.predictions.push_back({.name = name,
                               .group = "memory category",
                               .bytes = true,
                               .predicted = number_in(categories, name.c_str()),
                               .measured = number_in(found, name.c_str())});
  }
}

void read_recipe(RunRecord& run) {
  const auto text = read_if_there(run.folder / "recipe.yaml", kMostRecipe, run.missing);
  if (!text) return;
  bool complete = true;
  run.recipe_text = *text;
  run.recipe = recipe_values(*text, complete);
  if (!complete) run.missing.emplace_back("parts of recipe.yaml are no recipe and are left out");
}

RunState state_of(const RunRecord& run, double now_s) {
  if (run.starts.empty()) return RunState::kUnknown;
  const Start& last = run.starts.back();
  const auto state = choice_of<RunState>(last.end);
  if (!state || *state == RunState::kSilent) return RunState::kUnknown;
  if (*state != RunState::kRunning) return *state;
  return now_s - run.changed_s > kSilence_s ? RunState::kSilent : RunState::kRunning;
}

void say_what_is_missing(RunRecord& run, const MetricsLog& metrics) {
  const auto say = [&](bool is, const std::string& text) {
    if (is) run.missing.push_back(text);
  };
  const LineFaults& faults = metrics.faults();
  say(metrics.lines() == 0, "metrics.jsonl is missing or empty: there are no curves");
  say(run.starts.empty(), "goodput.json is missing or empty: where the time went is not known");
  say(run.recipe_text.empty(), "recipe.yaml is missing");
  say(run.predictions.empty(), "forecast.json is missing: the first step was not reached");
  say(run.log.environment.empty(),
      "logs/rank-0.log does not say what program, machine and model the run had");
  say(faults.unreadable > 0,
      str(faults.unreadable, " lines of metrics.jsonl cannot be read and are left out"));
  say(faults.without_step > 0,
      str(faults.without_step, " lines of metrics.jsonl have no step and are left out"));
  say(faults.out_of_order > 0,
      str(faults.out_of_order,
          " lines of metrics.jsonl have a step that is not above that of the line before; "
          "all lines are drawn, by step"));
  say(faults.clock_back > 0, str("the clock goes back in ", faults.clock_back, " lines of metrics.jsonl"));
  say(faults.bytes_left_out > 0,
      str("metrics.jsonl is too long: its last ", human_bytes(faults.bytes_left_out), " are left out"));
  say(faults.torn && run.state != RunState::kRunning, "the last line of metrics.jsonl is torn and left out");
  for (const auto& [name, count] : metrics.nulls())
    say(!has_word("tokens tokens_per_s mfu", name),
        str(name, " was not a finite number in ", count, " lines"));
}

}  // namespace

std::string RunRecord::recipe_value(std::string_view key) const {
  const auto found = std::ranges::find(recipe, key, &RecipeValue::key);
  return found == recipe.end() ? "" : found->value;
}

std::optional<double> RunRecord::left_s(const MetricsLog& metrics) const {
  const Series* pace = metrics.find("step_time_s");
  if (pace == nullptr || !steps || *steps <= step || state != RunState::kRunning) return std::nullopt;
  return static_cast<double>(*steps - step) * pace->last().y;
}

bool holds_run(const fs::Path& folder) {
  return has_entry(folder / "metrics.jsonl") || has_entry(folder / "goodput.json") ||
         has_entry(folder / "logs/rank-0.log");
}

RunReader::RunReader(const fs::Path& folder) : folder_(folder), metrics_(folder / "metrics.jsonl") {
  if (!is_folder(folder)) {
    throw Error(Code::kUsage, "'", folder.string(),
                "' is not a folder; name a run's folder (run.dir), such as runs/smoke");
  }
  if (std::ranges::none_of(kFiles, [&](const char* file) { return has_entry(folder / file); })) {
    throw Error(Code::kUsage, "'", folder.string(),
                "' is no run folder: it has neither metrics.jsonl nor goodput.json nor "
                "recipe.yaml; name the run.dir of a recipe");
  }
}

void RunReader::read_log(Missing& missing) {
  constexpr double kShare = 20;
  const double now = steady_now_s();
  if (now >= log_again_s_) {
    log_missing_.clear();
    log_ = read_logs(folder_, log_missing_);
    log_again_s_ = steady_now_s() + kShare * (steady_now_s() - now);
  }
  missing.insert(missing.end(), log_missing_.begin(), log_missing_.end());
}

RunRecord RunReader::read(double now_s) {
  RunRecord run{.folder = folder_};
  try {
    metrics_.read_on();
  } catch (const Error& error) {
    run.missing.emplace_back(error.what());
  }
  for (const char* file : kFiles)
    run.changed_s = std::max(run.changed_s, changed_at(folder_ / file).value_or(0));
  run.starts = read_starts(folder_, run.missing);
  run.state = state_of(run, now_s);
  read_recipe(run);
  read_forecast(run);
  read_checkpoints(run);
  run.lanes = read_lanes(folder_, run.missing);
  if (const Series* time = metrics_.find("time")) run.step = static_cast<std::int64_t>(time->last().x);
  read_log(run.missing);
  run.log = log_;
  name_sources(run.log, run.starts);
  name_causes(folder_, run.log, run.starts);
  run.account = account_of(run.starts, run.log.noted);
  for (const Start& start : run.starts)
    run.step = std::max(run.step, start.end == "running" ? start.last_step : 0);
  run.steps = run.log.steps;
  if (!run.steps) {
    const std::string planned = run.recipe_value("train.steps");
    constexpr std::size_t kDigits = 12;
    if (!planned.empty() && planned.size() <= kDigits &&
        planned.find_first_not_of("0123456789") == std::string::npos)
      run.steps = std::stoll(planned);
    if (run.steps == 0) run.steps.reset();  // epochs are planned, whose steps only the log tells
  }
  run.name = run.recipe_value("run.name");
  if (run.name.empty()) run.name = fs::Path(folder_ / "").parent_path().filename().string();
  Missing ignored;
  run.nodes = node_signs(read_if_there(folder_ / "logs" / "nodes.json", kMostRecipe, ignored).value_or(""));
  say_what_is_missing(run, metrics_);
  return run;
}

}  // namespace echelon::report
