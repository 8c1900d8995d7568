#include "app/engine/forecast_check.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "base/foreign_json.h"
#include "base/log.h"
#include "base/process/process.h"
#include "base/process/program.h"
#include "base/str.h"
#include "forecast/profile.h"
#include "forecast/report.h"
#include "run/signals.h"

namespace echelon::app {
namespace {

/// Returns whether a forecast was right within a factor of two. Any other is no help on a terminal.
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

ForecastCheck::ForecastCheck(const TrainOptions& train, const JobInfo& info, const Compute& compute)
    : job_{.ranks = info.size, .ranks_per_node = info.local_size}, gpu_(compute.accelerator != nullptr) {
  if (gpu_) device_ = forecast::device_of_gpu(compute.accelerator->device_name(compute.device.index()));
  if (train.threads_per_rank == 0) overrides_ = str("train.threads_per_rank=", at::get_num_threads());
}

void ForecastCheck::measured(const MeasuredStep& step) {
  if (gpu_ && device_.empty()) return;
  const Lock lock(mutex_);
  try {
    measured_.update(to_json(step, !gpu_));
    if (subject_.is_null()) begin();
    if (!predicted_.is_null()) compare_steps();
    write();
  } catch (const std::exception& error) {
    log::warn(str("no forecast beside what was measured: ", error.what()));
  }
}

void ForecastCheck::saved(const Checkpointer::Saved& saved) {
  const Lock lock(mutex_);
  if (measured_.is_null() || measured_.contains("checkpoint")) return;
  try {
    measured_["checkpoint"] = {{"step", saved.step},
                               {"seconds", saved.seconds},
                               {"stall_s", saved.stall_s},
                               {"waited", saved.waited}};
    measured_["memory"]["process_peak_bytes"] = peak_resident_bytes();
    if (!predicted_.is_null()) compare_saves();
    write();
  } catch (const std::exception& error) {
    log::warn(str("no forecast beside what a save took: ", error.what()));
  }
}

void ForecastCheck::begin() {
  constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;
  const std::string recipe = fs::read_file(folder_ / "recipe.yaml", kMostBytes, Code::kEnvironment);
  subject_ = {{"recipe_crc32c", crc32c(recipe)},
              {"ranks", job_.ranks},
              {"ranks_per_node", job_.ranks_per_node},
              {"device", device_}};
  if (const auto file = folder_ / "forecast.json"; std::filesystem::exists(file)) {
    const ForeignJson earlier = read_foreign_json(fs::read_file(file, kMostBytes, Code::kEnvironment));
    if (earlier.value.is_object() && earlier.value.value("of", nlohmann::json()) == subject_)
      predicted_ = earlier.value.value("predicted", nlohmann::json());
  }
  if (predicted_.is_null()) maker_ = std::jthread([this](const std::stop_token& stop) { make(stop); });
}

void ForecastCheck::make(const std::stop_token& stop) {
  constexpr std::chrono::seconds kUndisturbed(10);
  try {
    {
      Lock lock(mutex_);
      if (stopped_.wait_for(lock, stop, kUndisturbed, [] { return false; }) || stop.stop_requested()) return;
    }
    nlohmann::json plan = planned(stop);
    if (plan.is_null()) return;
    const Lock lock(mutex_);
    predicted_ = std::move(plan);
    compare_steps();
    if (measured_.contains("checkpoint")) compare_saves();
    write();
  } catch (const std::exception& error) {
    log::warn(str("no forecast of this run: ", error.what()));
  }
}

nlohmann::json ForecastCheck::planned(const std::stop_token& stop) const {
  std::vector<std::string> words{
      "nice", "-n", "19", own_program().string(), "plan", (folder_ / "recipe.yaml").string()};
  if (!overrides_.empty()) words.push_back(overrides_);
  if (!device_.empty()) words.insert(words.end(), {"--gpu", device_});
  words.insert(words.end(),
               {"--nodes", str(job_.nodes()), "--tasks-per-node", str(job_.ranks_per_node), "--json"});
  const ProgramRun run = run_program(words, {.stop = stop});
  // Slurm sends the signal of a stop to every process of the job.
  const bool stopped =
      std::ranges::find(StopSignal::kSignals, run.status - 128) != StopSignal::kSignals.end();
  if (stopped || stop.stop_requested()) return {};
  const bool no_fit = run.found && run.status == static_cast<int>(Code::kUsage);  // or a fault of the recipe
  if (!run.good() && !no_fit) throw Error(Code::kEnvironment, run.trouble("echelon plan"));
  nlohmann::json plan = parse_foreign_json(run.out, "forecast", Code::kEnvironment);
  if (plan.contains("error")) throw Error(Code::kEnvironment, run.trouble("echelon plan"));
  return plan;
}

void ForecastCheck::compare_steps() const {
  // A GPU's allocator counts what it has taken for tensors.
  const char* peak = gpu_ ? "reserved_bytes" : "tensor_peak_bytes";
  const auto tensors = predicted_["memory"][peak].get<double>();
  const auto measured = measured_["memory"]["tensor_peak_bytes"].get<double>();
  const auto sent = predicted_["traffic"]["sent_bytes"].get<double>();
  const auto really = measured_["sent_bytes"].get<double>();
  const auto tell = is_near(tensors, measured) && is_near(sent, really) ? log::info : log::note;
  tell(str("predicted and measured: all tensors ", human_bytes(tensors), " and ", human_bytes(measured),
           ", sent in a step ", human_bytes(sent), " and ", human_bytes(really)));
}

void ForecastCheck::compare_saves() const {
  const nlohmann::json& save = measured_["checkpoint"];
  const auto took = save["seconds"].get<double>();
  const auto stalled = save["stall_s"].get<double>();
  const auto seconds = predicted_["checkpoint"]["seconds"].get<double>();
  const double stall_s =
      save["waited"].get<bool>() ? seconds : predicted_["checkpoint"]["stall_s"].get<double>();
  const bool near = is_near(seconds, took) && is_near(stall_s, stalled);
  const auto tell = near ? log::info : log::note;
  tell(str("predicted and measured: a save ", forecast::duration(seconds), " and ", forecast::duration(took),
           ", of which training waits ", forecast::duration(stall_s), " and ", forecast::duration(stalled),
           near ? "" : str("; ", forecast::kAboutSaves)));
}

void ForecastCheck::write() const {
  const nlohmann::json all{{"of", subject_}, {"predicted", predicted_}, {"measured", measured_}};
  fs::publish_file(folder_ / "forecast.json", all.dump(2) + "\n", Code::kEnvironment);
}

}  // namespace echelon::app
