#include "forecast/report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/number.h"
#include "base/str.h"

namespace echelon::forecast {
namespace {

std::string percent(double share) {
  constexpr double kPercent = 100;
  return str(fixed(kPercent * share, 1), " %");
}

std::string memory_lines(const Rehearsed& r, const OutlookOptions& options, const Outlook& o) {
  const MemoryUse& m = r.memory;
  const char* kept = m.offloaded ? "in host memory" : "kept";
  std::string text =
      str("memory per rank: ", human_bytes(o.peak_bytes), " at most",
          o.limit_bytes > 0 ? str(" of ", human_bytes(o.limit_bytes), o.fits() ? ": fits" : ": does NOT fit")
                            : "",
          "; most during ", o.peak_place, '\n');
  text += str("  ", kept, ": weights ", human_bytes(m.weights), ", gradients ", human_bytes(m.gradients),
              ", optimizer ", human_bytes(m.optimizer),
              m.averaged > 0 ? str(", averaged weights ", human_bytes(m.averaged)) : "", "; together ",
              human_bytes(m.persistent()), '\n');
  text += str("  at most: gathered weights ", human_bytes(m.gathered), ", whole gradients ",
              human_bytes(m.whole_gradients), ", staging ", human_bytes(m.staging), " (pool ",
              human_bytes(m.pool), "), activations and temporaries ", human_bytes(m.activations()), '\n');
  text += str("  all tensors ", human_bytes(o.tensor_peak_bytes), ", taken for them ",
              human_bytes(m.device_reserved),
              options.context_bytes > 0 ? str(", beside them ", human_bytes(options.context_bytes)) : "");
  if (m.host_peak != m.device_peak) text += str("; host memory ", human_bytes(m.host_peak));
  return text + '\n';
}

std::string traffic_lines(const OutlookOptions& options, const Outlook& o) {
  std::string text = str("sent by a rank per step: ", human_bytes(o.traffic.sent));
  if (options.job.nodes() > 1) text += str(", of it ", human_bytes(o.traffic.network), " to other nodes");
  for (const auto& [operation, sent] : o.traffic.by_operation)
    text += str("; ", operation, ' ', human_bytes(sent));
  return text + '\n';
}

std::string time_lines(const ReportTitle& title, const Rehearsed& r, const OutlookOptions& options,
                       const Outlook& o) {
  if (!o.time) {
    return "time: unknown without a profile of these CPU ranks; `echelon doctor job --calibrate FILE` writes "
           "one, and --gpu FILE uses it\n";
  }
  const Outlook::Time& t = *o.time;
  constexpr double kTera = 1e12;
  std::string text = str("step: ", duration(t.step_s), ", ", fixed(t.samples_per_s, 2), " samples/s");
  if (r.tokens_per_sample > 0) {
    text += str(", ", human_count(static_cast<std::uint64_t>(t.tokens_per_s)), " tokens/s (",
                human_count(static_cast<std::uint64_t>(t.tokens_per_s / options.job.ranks)), " per rank)");
  }
  if (title.unproven) text += str("\n  ", kUnproven);
  text += str("\n  limits: ", t.limit, '\n');
  text += str("  ", fixed(r.model_flops / t.step_s / kTera, 2), " TFLOP/s per rank of the model");
  if (t.mfu > 0) text += str(" (MFU ", percent(t.mfu), ")");
  text += str(", ", fixed(t.timeline.flops / t.step_s / kTera, 2), " done with recomputation");
  if (t.hfu > 0) text += str(" (", percent(t.hfu), ")");
  const auto busy = [&](Lane lane) { return percent(t.timeline.busy_s[index_of(lane)] / t.step_s); };
  text += str("\n  busy: compute ", busy(Lane::kCompute), ", copies ", busy(Lane::kCopy), ", gathers ",
              busy(Lane::kGather), ", reductions ", busy(Lane::kReduce), '\n');
  text += options.steps > 0 ? str("run: ", options.steps, " steps in ", duration(t.run_s), ", ",
                                  fixed(t.device_hours, 1), " device-hours")
                            : "run: its number of steps is known only with the data";
  if (t.save_every_s > 0) {
    text += str("; with one failure per ", fixed(options.node_days_to_failure, 0), " node-days ",
                percent(t.goodput), " of the time trains, if a checkpoint is saved every ",
                duration(t.save_every_s));
  }
  return text + '\n';
}

const char* limit_of(Cost cost) {
  switch (cost) {
    case Cost::kProduct:
    case Cost::kFp8Product:
    case Cost::kAttention:
    case Cost::kAttentionBackward: return "arithmetic";
    case Cost::kMemory: return "memory";
    case Cost::kHostCopy: return "host link";
  }
  return "";
}

nlohmann::json time_json(const Rehearsed& r, const Outlook::Time& t) {
  nlohmann::json operations = nlohmann::json::array();
  for (const auto& [name, total] : t.timeline.by_name) {
    operations.push_back({{"name", name},
                          {"count", total.count},
                          {"seconds", total.seconds},
                          {"flops", total.flops},
                          {"bytes", total.bytes}});
  }
  std::sort(operations.begin(), operations.end(), [](const auto& a, const auto& b) {
    return a["seconds"].template get<double>() > b["seconds"].template get<double>();
  });
  const auto of_run = [&](double value) { return t.run_s > 0 ? nlohmann::json(value) : nlohmann::json(); };
  nlohmann::json busy;
  for (std::size_t lane = 1; lane < kLanes; ++lane)
    busy[name_of(static_cast<Lane>(lane))] = t.timeline.busy_s[lane];
  nlohmann::json waits;
  for (const Lane lane : {Lane::kGather, Lane::kReduce, Lane::kCopy, Lane::kHost})
    waits[name_of(lane)] = t.timeline.wait_s[index_of(lane)];
  return {{"step_time_s", t.step_s},
          {"samples_per_s", t.samples_per_s},
          {"tokens_per_s", t.tokens_per_s},
          {"mfu", t.mfu},
          {"hfu", t.hfu},
          {"tflops_per_rank", r.model_flops / t.step_s / 1e12},
          {"done_tflops_per_rank", t.timeline.flops / t.step_s / 1e12},
          {"limits", t.limit},
          {"busy_s", busy},
          {"waits_s", waits},
          {"operations", operations},
          {"run_s", of_run(t.run_s)},
          {"device_hours", of_run(t.device_hours)},
          {"goodput", t.goodput},
          {"save_every_s", t.save_every_s}};
}

}  // namespace

std::string duration(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3'600;
  constexpr double kDay = 86'400;
  constexpr double kTwo = 2;
  if (seconds < 1) return str(fixed(seconds * 1e3, seconds < 0.01 ? 2 : 1), " ms");
  if (seconds < kTwo * kMinute) return str(fixed(seconds, 2), " s");
  if (seconds < kTwo * kHour) return str(fixed(seconds / kMinute, 1), " min");
  if (seconds < kTwo * kDay) return str(fixed(seconds / kHour, 1), " h");
  return str(fixed(seconds / kDay, 1), " days");
}

std::string text_report(const ReportTitle& title, const Rehearsed& r, const OutlookOptions& options,
                        const Outlook& o) {
  const JobShape& job = options.job;
  std::string text =
      str("model ", r.model, ": ", human_count(static_cast<std::uint64_t>(r.parameters)), " parameters in ",
          counted(r.units, "unit"), ", largest ", human_bytes(r.largest_unit), " gathered\n");
  text +=
      str(title.strategy, " over ", r.groups, ", ", counted(job.nodes(), "node"), " of ", job.ranks_per_node,
          ", ", title.device, title.network.empty() ? "" : str(", ", title.network), '\n');
  text += str("batch: ", title.micro_batch, " per rank x ", counted(job.ranks, "rank"), " x ",
              counted(r.passes, "pass"), " = ", r.samples, " samples a step");
  if (r.tokens_per_sample > 0)
    text += str(", ",
                human_count(static_cast<std::uint64_t>(static_cast<double>(r.samples) * r.tokens_per_sample)),
                " tokens");
  text += '\n' + memory_lines(r, options, o) + traffic_lines(options, o) + time_lines(title, r, options, o);
  const bool at_limit =
      options.rank_bytes_per_s > 0 &&
      o.save_s * options.rank_bytes_per_s <= static_cast<double>(r.rank_checkpoint_bytes) * (1 + 1e-9);
  text += str("checkpoint: ", human_bytes(r.checkpoint_bytes), ", ", duration(o.save_s), " at ",
              human_bytes(at_limit ? options.rank_bytes_per_s : options.disk_bytes_per_s),
              at_limit ? "/s per rank" : "/s per node");
  if (o.stall_s > 0) text += str(", training waits ", duration(o.stall_s));
  if (o.time && !options.waits_for_saves && o.time->save_due_s > 0 &&
      o.time->save_due_s + o.stall_s < o.save_s)
    text += str("; the next is due after ", duration(o.time->save_due_s + o.stall_s),
                ", so some are left out: save less often");
  if (o.node_memory_saves > 0) text += str("; in the memory of each node ", human_bytes(o.node_memory_saves));
  return text + '\n';
}

std::string json_report(const ReportTitle& title, const Rehearsed& r, const OutlookOptions& options,
                        const Outlook& o) {
  const MemoryUse& m = r.memory;
  nlohmann::json json{
      {"recipe", title.recipe},
      {"device", title.device},
      {"network", title.network},
      {"ranks", options.job.ranks},
      {"ranks_per_node", options.job.ranks_per_node},
      {"parameters", r.parameters},
      {"units", r.units},
      {"unit_tree", r.unit_tree},
      {"batch", {{"micro_batch_size", title.micro_batch}, {"passes", r.passes}, {"samples", r.samples}}},
      {"fits", o.fits()},
      {"memory",
       {{"peak_bytes", o.peak_bytes},
        {"tensor_peak_bytes", o.tensor_peak_bytes},
        {"reserved_bytes", m.device_reserved},
        {"limit_bytes", o.limit_bytes},
        {"peak_place", o.peak_place},
        {"host_peak_bytes", m.host_peak},
        {"offloaded", m.offloaded},
        {"categories",
         {{"weights", m.weights},
          {"gradients", m.gradients},
          {"optimizer", m.optimizer},
          {"averaged", m.averaged},
          {"gathered", m.gathered},
          {"whole_gradients", m.whole_gradients},
          {"staging", m.staging},
          {"pool", m.pool},
          {"activations", m.activations()}}}}},
      {"traffic",
       {{"sent_bytes", o.traffic.sent},
        {"by_operation", o.traffic.by_operation},
        {"peer_bytes", o.traffic.peer},
        {"network_bytes", o.traffic.network}}},
      {"flops", {{"model", r.model_flops}, {"done", o.flops}}},
      {"checkpoint",
       {{"bytes", r.checkpoint_bytes},
        {"rank_bytes", r.rank_checkpoint_bytes},
        {"seconds", o.save_s},
        {"stall_s", o.stall_s},
        {"node_memory_bytes", o.node_memory_saves}}}};
  if (o.time) json.update(time_json(r, *o.time));
  return json.dump(2) + '\n';
}

std::string operations_table(const Timeline& timeline) {
  using Row = std::pair<std::string, NameTotal>;
  std::vector<Row> rows(timeline.by_name.begin(), timeline.by_name.end());
  std::ranges::sort(rows, [](const Row& a, const Row& b) { return a.second.seconds > b.second.seconds; });
  std::string text =
      "operation                      count     TFLOP     GB moved   ms      share  limited by\n";
  constexpr double kGiga = 1e9;
  constexpr double kTera = 1e12;
  for (const auto& [name, total] : rows) {
    char line[160];
    std::snprintf(line, sizeof(line), "%-30s %-9lld %-9.3f %-10.2f %-7.2f %4.1f %%  %s\n", name.c_str(),
                  static_cast<long long>(total.count), total.flops / kTera, total.bytes / kGiga,
                  total.seconds * 1e3, 100 * total.seconds / timeline.step_s, limit_of(total.cost));
    text += line;
  }
  return text;
}

}  // namespace echelon::forecast
