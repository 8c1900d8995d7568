#include "app/plan/planner.h"

#include <algorithm>

#include "app/engine/engine.h"
#include "app/plugin.h"
#include "base/error.h"
#include "base/number.h"
#include "base/process/cores.h"

namespace echelon::app {
namespace {

/// What such machines are usually connected by.
const char* usual_network(const std::string& device) {
  if (device.starts_with("a100")) return "efa-400g";
  if (device == "gb200") return "infiniband-400g";
  if (device == "l40s") return "ethernet-100g";
  return "efa-3200g";
}

/// Compute threads of a rank: on CPUs those of this machine, where nothing else is stated.
int threads_of(const Recipe& recipe, const forecast::JobShape& job) {
  if (recipe.train.threads_per_rank > 0) return static_cast<int>(recipe.train.threads_per_rank);
  return std::max(1, usable_cores() / job.ranks_per_node);
}

}  // namespace

Planner::Planner(PlanTarget target) : target_(std::move(target)) {
  if (!target_.network.empty()) (void)forecast::find_network(target_.network);  // refused, though not used
  if (in_lower_case(target_.gpu) == "cpu") return;
  if (forecast::is_cpu_profile(target_.gpu)) {
    cpu_ = forecast::read_cpu_profile(target_.gpu);
    return;
  }
  device_ = forecast::find_device(target_.gpu);
  network_ = forecast::find_network(target_.network.empty() ? usual_network(device_->name) : target_.network);
}

forecast::OutlookOptions Planner::options_for(const Recipe& recipe, const forecast::Rehearsed& rehearsed,
                                              const forecast::JobShape& job) const {
  constexpr double kMinute_s = 60;
  constexpr double kHour_s = 3'600;
  const CheckpointOptions& saves = recipe.checkpoint;
  forecast::OutlookOptions options{.job = job,
                                   .steps = recipe.train.epochs > 0 ? 0 : recipe.train.steps,
                                   .save_every_steps = saves.every_steps,
                                   .save_every_s = saves.every_minutes * kMinute_s,
                                   .memory_every_steps = saves.memory_every_steps,
                                   .memory_bytes = target_.memory_bytes,
                                   .context_bytes = static_cast<double>(rehearsed.memory.process),
                                   .disk_bytes_per_s = target_.disk_bytes_per_s,
                                   .rank_bytes_per_s = saves.max_write_mb_per_s * 1e6,
                                   .waits_for_saves = !saves.async,
                                   .node_days_to_failure = target_.node_days_to_failure};
  if (saves.auto_interval) options.save_for_failure_every_s = saves.mean_time_to_failure_hours * kHour_s;
  options.copy_bytes_per_s = forecast::kCopyBytesPerS;
  if (!device_) return options;
  if (options.memory_bytes == 0) options.memory_bytes = device_->memory_bytes;
  options.context_bytes = device_->context_bytes;
  options.copy_bytes_per_s =
      std::min(options.copy_bytes_per_s, device_->host.bytes_per_s * device_->host.achieved);
  options.peak_flops = device_->flops.at("bf16");
  return options;
}

Plan Planner::plan(const Recipe& recipe, const forecast::JobShape& job) const {
  validate_for_size(recipe, job.ranks);
  Plan plan;
  std::string fault;
  const int status = engine_function<RehearseFunction>("echelon_engine_rehearse")(
      recipe, job, on_gpu(), threads_of(recipe, job), plan.rehearsed, fault);
  if (status != 0) throw Error(static_cast<Code>(status), fault);
  plan.options = options_for(recipe, plan.rehearsed, job);
  std::unique_ptr<forecast::Rates> rates;
  if (device_) {
    forecast::Device device = *device_;
    if (recipe.precision.tf32) device.flops["fp32"] = device.flops.at("tf32");
    rates = std::make_unique<forecast::GpuRates>(std::move(device), *network_, job.ranks_per_node);
  }
  if (cpu_) rates = std::make_unique<forecast::CpuRates>(*cpu_, plan.rehearsed.step);
  plan.outlook = forecast::look_ahead(plan.rehearsed, plan.options, rates.get());
  plan.title = {.recipe = recipe.run.name,
                .strategy = std::string(word_of(recipe.shard.strategy)),
                .device = device_ ? device_->title
                          : cpu_  ? cpu_->title
                                  : "CPU ranks",
                .network = network_ && job.nodes() > 1 ? network_->title : "",
                .micro_batch = recipe.train.micro_batch_size,
                .unproven = device_ && device_->compiled_in};
  return plan;
}

}  // namespace echelon::app
