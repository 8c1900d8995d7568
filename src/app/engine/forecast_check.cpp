#include "app/engine/forecast_check.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "app/engine/plan/rehearsal.h"
#include "base/error.h"
#include "base/files/fs.h"
#include "base/foreign_json.h"
#include "base/log.h"
#include "base/number.h"
#include "base/process/program.h"
#include "base/str.h"
#include "forecast/profile.h"
#include "forecast/report.h"

namespace echelon::app {
namespace {

std::string bytes(double count) {
  return human_bytes(static_cast<std::uint64_t>(count));
}

/// The profile whose name is in the GPU's: "h200" of "NVIDIA H200". A name with a size of memory,
/// "a100-40g", needs both parts: "NVIDIA A100-SXM4-40GB".
std::string profile_of(const std::string& gpu) {
  const std::string name = in_lower_case(gpu);
  for (const std::string& known : forecast::device_names()) {
    const std::size_t dash = known.find('-');
    const bool fits = name.find(known.substr(0, dash)) != name.npos;
    if (fits && (dash == known.npos || name.find(known.substr(dash + 1)) != name.npos)) return known;
  }
  return "";
}

/// Whether a forecast was right within a factor of two. One that was not is no help on a terminal.
bool is_near(double predicted, double measured) {
  return std::max(predicted, measured) <= 2 * std::min(predicted, measured);
}

nlohmann::json to_json(const MeasuredStep& step, bool on_host) {
  const MemoryReport& m = step.memory;
  const std::int64_t tensors = on_host ? m.tensors_peak : static_cast<std::int64_t>(step.device_bytes);
  nlohmann::json purposes;
  for (const MemoryCategory& category : categories(m, on_host ? 0 : step.device_bytes))
    purposes[category.name] = category.bytes;
  return {
      {"step", step.step},
      {"step_time_s", step.step_s},
      {"sent_bytes", step.sent_bytes},
      {"memory",
       {{"tensor_peak_bytes", tensors}, {"process_peak_bytes", m.resident_peak}, {"categories", purposes}}}};
}

}  // namespace

ForecastCheck::ForecastCheck(const Recipe& recipe, const JobInfo& info, const Compute& compute)
    : job_{.ranks = info.size, .ranks_per_node = info.local_size}, gpu_(compute.accelerator != nullptr) {
  if (gpu_) {
    device_ = profile_of(compute.accelerator->device_name(compute.device.index()));
    return;
  }
  try {
    rehearse_here(recipe, info);
  } catch (const std::exception& error) {
    log::warn(str("no forecast of this run: ", error.what()));
  }
}

void ForecastCheck::rehearse_here(const Recipe& recipe, const JobInfo& info) {
  const forecast::Rehearsed rehearsed =
      rehearse({.recipe = &recipe, .job = job_, .rank = info.rank, .threads = at::get_num_threads()});
  const forecast::OutlookOptions options{.job = job_,
                                         .steps = recipe.train.steps,
                                         .context_bytes = static_cast<double>(rehearsed.memory.process),
                                         .rank_bytes_per_s = recipe.checkpoint.max_write_mb_per_s * 1e6,
                                         .copy_bytes_per_s = forecast::kCpuCopyBytesPerS,
                                         .waits_for_saves = !recipe.checkpoint.async};
  const forecast::ReportTitle title{.recipe = recipe.run.name,
                                    .strategy = std::string(word_of(recipe.shard.strategy)),
                                    .device = "CPU ranks",
                                    .micro_batch = recipe.train.micro_batch_size};
  const forecast::Outlook outlook = forecast::look_ahead(rehearsed, options, nullptr);
  predicted_ = parse_foreign_json(forecast::json_report(title, rehearsed, options, outlook), "forecast",
                                  Code::kEnvironment);
}

void ForecastCheck::rehearse_elsewhere() {
  constexpr double kDeadline_s = 30;
  if (device_.empty()) return;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const ProgramRun run =
      run_program({program, "plan", (folder_ / "recipe.yaml").string(), "--gpu", std::exchange(device_, ""),
                   "--nodes", str(job_.nodes()), "--gpus-per-node", str(job_.ranks_per_node), "--json"},
                  kDeadline_s);
  const bool no_fit = run.found && run.status == static_cast<int>(Code::kUsage);  // or a fault of the recipe
  if (!run.good() && !no_fit) throw Error(Code::kEnvironment, run.trouble("echelon plan"));
  nlohmann::json planned = parse_foreign_json(run.out, "forecast", Code::kEnvironment);
  if (planned.contains("error")) throw Error(Code::kEnvironment, run.trouble("echelon plan"));
  predicted_ = std::move(planned);
}

void ForecastCheck::measured(const MeasuredStep& step) {
  try {
    if (gpu_ && predicted_.is_null()) rehearse_elsewhere();
    if (!predicted_.is_null()) compare(step);
  } catch (const std::exception& error) {
    log::warn(str("no forecast beside what was measured: ", error.what()));
  }
}

void ForecastCheck::saved(const Checkpointer::Saved& saved) {
  try {
    if (!predicted_.is_null() && !measured_.contains("checkpoint")) compare(saved);
  } catch (const std::exception& error) {
    log::warn(str("no forecast beside what a save took: ", error.what()));
  }
}

void ForecastCheck::compare(const MeasuredStep& step) {
  measured_.update(to_json(step, !gpu_));
  // A GPU's allocator counts what it has taken for tensors.
  const char* peak = gpu_ ? "reserved_bytes" : "tensor_peak_bytes";
  const auto tensors = predicted_["memory"][peak].get<double>();
  const auto measured = measured_["memory"]["tensor_peak_bytes"].get<double>();
  const auto sent = predicted_["traffic"]["sent_bytes"].get<double>();
  const auto tell = is_near(tensors, measured) && is_near(sent, step.sent_bytes) ? log::info : log::note;
  tell(str("predicted and measured: all tensors ", bytes(tensors), " and ", bytes(measured),
           ", sent in a step ", bytes(sent), " and ", bytes(step.sent_bytes)));
  write();
}

void ForecastCheck::compare(const Checkpointer::Saved& saved) {
  measured_["checkpoint"] = {
      {"step", saved.step}, {"seconds", saved.seconds}, {"stall_s", saved.stall_s}, {"waited", saved.waited}};
  if (measured_.contains("memory")) measured_["memory"]["process_peak_bytes"] = peak_resident_bytes();
  const double seconds = predicted_["checkpoint"]["seconds"].get<double>();
  const double stall_s = saved.waited ? seconds : predicted_["checkpoint"]["stall_s"].get<double>();
  const bool near = is_near(seconds, saved.seconds) && is_near(stall_s, saved.stall_s);
  const std::string text = str("predicted and measured: a save ", forecast::duration(seconds), " and ",
                               forecast::duration(saved.seconds), ", of which training waits ",
                               forecast::duration(stall_s), " and ", forecast::duration(saved.stall_s));
  if (near) {
    log::info(text);
  } else {
    log::note(str(text, "; ", forecast::kAboutSaves));
  }
  write();
}

void ForecastCheck::write() const {
  const nlohmann::json both{{"predicted", predicted_}, {"measured", measured_}};
  fs::publish_file(folder_ / "forecast.json", both.dump(2) + "\n", Code::kUsage);
}

}  // namespace echelon::app
