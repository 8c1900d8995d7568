#include "forecast/outlook.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/str.h"

namespace echelon::forecast {
namespace {

constexpr double kDay_s = 86'400;
constexpr double kHour_s = 3'600;

const char* name_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllGather: return "all_gather";
    case OperationKind::kReduceScatter: return "reduce_scatter";
    case OperationKind::kAllReduce: return "all_reduce";
    default: return "other";
  }
}

/// Calls f(event, how often it happens in a step of `passes` micro-batches).
template <class F>
void for_each_event(const Trace& trace, std::int64_t passes, const F& f) {
  const std::size_t rehearsed = trace.passes.size();
  for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
    const bool between = rehearsed > 2 && i >= trace.passes[1] && i < trace.passes[2];
    f(trace.events[i],
      between ? static_cast<double>(passes - static_cast<std::int64_t>(rehearsed) + 1) : 1.0);
  }
}

double flops_of(const Rehearsed& r) {
  double flops = 0;
  for_each_event(r.step, r.passes, [&](const Event& event, double times) {
    if (event.kind == Event::Kind::kWork) flops += r.step.works[event.index].flops * times;
  });
  return flops;
}

Traffic traffic_of(const Rehearsed& r, const JobShape& job) {
  Traffic traffic;
  for_each_event(r.step, r.passes, [&](const Event& event, double times) {
    if (event.kind != Event::Kind::kIssue) return;
    const Message& message = r.step.messages[event.index];
    const Group& group = r.step.groups[message.group];
    const double bytes = message.sent_bytes * times;
    if (bytes == 0) return;
    traffic.sent += bytes;
    traffic.by_operation[name_of(message.kind)] += bytes;
    const double away = bytes * share_to_other_nodes(message, group, job.ranks_per_node, !group.on_host);
    traffic.network += away;
    traffic.peer += bytes - away;
  });
  return traffic;
}

std::string place_of(const Trace& trace, std::uint32_t event) {
  for (std::uint32_t i = std::min<std::uint32_t>(event + 1, static_cast<std::uint32_t>(trace.events.size()));
       i-- > 0;) {
    if (trace.events[i].kind == Event::Kind::kWork)
      return trace.places[trace.works[trace.events[i].index].place];
  }
  return "start";
}

/// The largest shares of a step, in words.
std::string limit_of(const Outlook::Time& time) {
  const auto waits = [&](Lane lane) { return time.timeline.wait_s[index_of(lane)]; };
  std::vector<std::pair<double, std::string>> shares{
      {waits(Lane::kGather), "waiting for weights to be gathered"},
      {waits(Lane::kReduce), "waiting for gradients to be reduced"},
      {waits(Lane::kCopy), "waiting for copies between host and device"},
      {waits(Lane::kHost), "waiting for the host to issue operations"}};
  std::map<Cost, double> by_cost;
  for (const auto& [name, total] : time.timeline.by_name) by_cost[total.cost] += total.seconds;
  shares.emplace_back(by_cost[Cost::kProduct] + by_cost[Cost::kFp8Product], "matrix products");
  shares.emplace_back(by_cost[Cost::kAttention] + by_cost[Cost::kAttentionBackward], "attention");
  shares.emplace_back(by_cost[Cost::kMemory], "reading and writing memory");
  shares.emplace_back(by_cost[Cost::kHostCopy], "copies between host and device");
  std::sort(shares.rbegin(), shares.rend());
  constexpr std::size_t kNamed = 3;
  constexpr double kLeast = 0.01;
  constexpr double kPercent = 100;
  std::vector<std::string> named;
  for (std::size_t i = 0; i < kNamed; ++i) {
    const double share = shares[i].first / time.step_s;
    if (share >= kLeast) named.push_back(str(shares[i].second, " ", std::lround(kPercent * share), " %"));
  }
  return join(named, ", ");
}

/// Young's interval between saves.
double young_s(double stall_s, double between_failures_s) {
  return std::sqrt(2 * stall_s * between_failures_s);
}

/// Seconds of training from one save to disk to the next, as the recipe asks (train/save/save_interval.h); 0:
/// none is due.
double save_due_s(const OutlookOptions& options, double step_s, double save_s, double stall_s) {
  constexpr double kNever_s = std::numeric_limits<double>::infinity();
  constexpr double kShortest_s = 10;
  double due_s = options.save_every_s > 0 ? options.save_every_s - stall_s : kNever_s;
  if (options.save_for_failure_every_s > 0) {
    const double interval_s = young_s(stall_s, options.save_for_failure_every_s);
    due_s = std::min(due_s, std::max({kShortest_s, save_s, interval_s}) - stall_s);
  }
  if (options.save_every_steps > 0)
    due_s = std::min(due_s, static_cast<double>(options.save_every_steps) * step_s);
  return due_s == kNever_s ? 0 : std::max(due_s, step_s);
}

/// Seconds for which training waits for saves to memory, for each second that it trains. A step that is saved
/// to disk is not saved to memory.
double memory_stall(const OutlookOptions& options, double step_s, double copy_s) {
  if (options.memory_every_steps == 0) return 0;
  const auto every = static_cast<double>(options.memory_every_steps);
  double saves = 1 / every;
  if (options.save_every_steps > 0) {
    const auto common = static_cast<double>(std::gcd(options.memory_every_steps, options.save_every_steps));
    saves -= common / every / static_cast<double>(options.save_every_steps);
  }
  return saves * copy_s / step_s;
}

/// The interval between saves that loses least, and the share of time that failures leave (Daly, first
/// order).
void expect_failures(const OutlookOptions& options, double save_s, double stall_s, Outlook::Time& time) {
  if (options.node_days_to_failure <= 0) return;
  const double between_s = options.node_days_to_failure * kDay_s / std::max(1, options.job.nodes());
  const double stall = std::max(stall_s, 1e-3);
  // Below the time that a save takes, the next one would find it unfinished (Daly's lower bound).
  time.save_every_s = std::max(young_s(stall, between_s), save_s);
  const double lost = stall / time.save_every_s + (time.save_every_s / 2 + options.restart_s) / between_s;
  time.goodput = std::max(0.0, 1 - lost);
}

Outlook::Time time_of(const Rehearsed& r, const OutlookOptions& options, const Rates& rates,
                      const Outlook& saves, double copy_s) {
  Outlook::Time time;
  time.timeline = play(r.step, rates, r.passes);
  time.step_s = time.timeline.step_s;
  time.samples_per_s = static_cast<double>(r.samples) / time.step_s;
  time.tokens_per_s = time.samples_per_s * r.tokens_per_sample;
  if (options.peak_flops > 0) {
    time.mfu = r.model_flops / time.step_s / options.peak_flops;
    time.hfu = time.timeline.flops / time.step_s / options.peak_flops;
  }
  const double trained_s = time.step_s * static_cast<double>(options.steps);
  time.save_due_s = save_due_s(options, time.step_s, saves.save_s, saves.stall_s);
  expect_failures(options, saves.save_s, saves.stall_s, time);
  double stalls = memory_stall(options, time.step_s, copy_s);
  // With failures, the cost of saves to disk is part of the goodput.
  if (time.save_every_s == 0 && time.save_due_s > 0) {
    // Training goes on beside a save that is due again before it has ended.
    const double beside_s = options.waits_for_saves ? 0 : saves.save_s - saves.stall_s;
    stalls += saves.stall_s / std::max(time.save_due_s, beside_s);
  }
  time.trains = time.goodput / (1 + stalls);
  time.run_s = trained_s / std::max(time.trains, 0.01);
  time.device_hours = time.run_s * options.job.ranks / kHour_s;
  time.limit = limit_of(time);
  return time;
}

}  // namespace

Outlook look_ahead(const Rehearsed& r, const OutlookOptions& options, const Rates* rates) {
  Outlook outlook;
  outlook.tensor_peak_bytes = static_cast<double>(r.memory.device_peak);
  outlook.peak_bytes = static_cast<double>(r.memory.device_reserved) + options.context_bytes;
  outlook.limit_bytes = options.memory_bytes;
  outlook.peak_place = place_of(r.step, r.step.peak);
  outlook.traffic = traffic_of(r, options.job);
  outlook.flops = flops_of(r);
  const auto saved = static_cast<double>(r.checkpoint_bytes);
  const int nodes = std::max(1, options.job.nodes());
  outlook.save_s = saved / (options.disk_bytes_per_s * nodes);
  if (options.rank_bytes_per_s > 0) {
    outlook.save_s =
        std::max(outlook.save_s, static_cast<double>(r.rank_checkpoint_bytes) / options.rank_bytes_per_s);
  }
  if (options.memory_every_steps > 0) outlook.node_memory_saves = 2 * saved / nodes * (nodes > 1 ? 2 : 1);
  const double copy_s = options.copy_bytes_per_s > 0
                            ? static_cast<double>(r.rank_checkpoint_bytes) / options.copy_bytes_per_s
                            : 0;
  outlook.stall_s = options.waits_for_saves ? outlook.save_s : copy_s;
  if (rates != nullptr) outlook.time = time_of(r, options, *rates, outlook, copy_s);
  return outlook;
}

}  // namespace echelon::forecast
