#include "train/measure/step_reporter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "base/log.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "base/utc_time.h"
#include "comm/exchange.h"
#include "train/measure/flops.h"
#include "train/measure/memory_report.h"

namespace echelon {

constexpr std::size_t kCategories = std::tuple_size_v<decltype(categories({}, 0))>;

struct StepReporter::RankValues {
  double step_s = 0;
  StepParts spent;
  double save_stall_s = 0;
  double resident_bytes = 0;
  double device_bytes = 0;
  double tensor_bytes = 0;
  double sent_bytes = 0;
  std::array<double, kCategories> memory{};

  [[nodiscard]] double work_s() const { return step_s - spent.comm_wait_s(); }
};

IntervalClock::Reading StepReporter::reading() const {
  return {.now_s = steady_now_s(), .spent = step_.times()};
}

double StepReporter::step_s() const {
  return interval_.step_s(steady_now_s());
}

StepReporter::RankValues StepReporter::mine(const IntervalClock::Means& means) const {
  const std::uint64_t device_bytes = options_.peak_device_bytes ? options_.peak_device_bytes() : 0;
  const MemoryReport memory = memory_report(parts_.state);
  RankValues mine{.step_s = means.step_s,
                  .spent = means.spent,
                  .save_stall_s = stalled_s_,
                  .resident_bytes = static_cast<double>(memory.resident_peak),
                  .device_bytes = static_cast<double>(device_bytes),
                  .tensor_bytes = static_cast<double>(memory.tensors_peak),
                  .sent_bytes = sent_bytes_};
  const auto purposes = categories(memory, device_bytes);
  for (std::size_t i = 0; i < kCategories; ++i) mine.memory[i] = static_cast<double>(purposes[i].bytes);
  return mine;
}

void StepReporter::add_ranks(const std::vector<RankValues>& ranks, StepMetrics& metrics) const {
  using Rank = RankValues;
  const auto bytes = [&ranks](const auto& value) {
    return static_cast<std::uint64_t>(spread_of(mapped(ranks, value)).max);
  };
  metrics.peak_rss_bytes = bytes([](const Rank& r) { return r.resident_bytes; });
  metrics.peak_device_bytes = bytes([](const Rank& r) { return r.device_bytes; });
  metrics.tensor_peak_bytes = options_.peak_device_bytes
                                  ? metrics.peak_device_bytes
                                  : bytes([](const Rank& r) { return r.tensor_bytes; });
  metrics.sent_bytes = bytes([](const Rank& r) { return r.sent_bytes; });
  metrics.save_stall_s = spread_of(mapped(ranks, [](const Rank& r) { return r.save_stall_s; })).max;
  for (const Rank& rank : ranks)
    metrics.breakdown = metrics.breakdown.plus(rank.spent, 1 / static_cast<double>(ranks.size()));
  const auto spread = [&](const char* name, const auto& value) {
    metrics.spread.emplace_back(name, spread_of(mapped(ranks, value)));
    return metrics.spread.back().second.max;
  };
  spread("work_s", [](const Rank& r) { return r.work_s(); });
  metrics.step_time_s = spread("step_time_s", [](const Rank& r) { return r.step_s; });
  metrics.comm_wait_s = spread("comm_wait_s", [](const Rank& r) { return r.spent.comm_wait_s(); });
  metrics.data_wait_s = spread("data_wait_s", [](const Rank& r) { return r.spent.data_wait_s; });
  spread("peak_rss_bytes", [](const Rank& r) { return r.resident_bytes; });
  for (std::size_t i = 0; i < kCategories; ++i) {
    metrics.memory_bytes.emplace_back(categories({}, 0)[i].name,
                                      bytes([i](const Rank& r) { return std::max(0.0, r.memory[i]); }));
  }
}

StepMetrics StepReporter::measure(const TrainStep::Result& result, double lr) {
  const TrainState& state = parts_.state;
  const IntervalClock::Means means = interval_.means(reading());
  StepMetrics metrics{.step = state.step,
                      .time_s = utc_now_s(),
                      .loss = result.loss,
                      .lr = lr,
                      .grad_norm = result.grad_norm,
                      .epoch = static_cast<double>(state.position.next_sample) /
                               static_cast<double>(state.data.samples_per_epoch()),
                      .samples = state.position.next_sample,
                      .skipped_steps = state.skipped};
  // One exchange for each line, and none for other steps.
  add_ranks(gather_values(parts_.comm, mine(means), "metrics"), metrics);
  const SampleSize size = state.data.sample_size();
  metrics.samples_per_s = static_cast<double>(options_.train.global_batch_size) / metrics.step_time_s;
  if (size.tokens > 0) {
    metrics.tokens = state.tokens;
    metrics.tokens_per_s = means.tokens / metrics.step_time_s;
  }
  if (state.loss_scale.used()) metrics.loss_scale = state.loss_scale.factor();
  double flops = metrics.samples_per_s * flops_per_sample(state.model, {size.tokens, size.target_tokens}) /
                 parts_.comm.size();
  if (size.tokens > 0) {  // the largest sample's; most chats, pairs and documents are shorter
    const auto samples = static_cast<double>(options_.train.global_batch_size);
    flops *= means.tokens / (samples * static_cast<double>(size.tokens + size.target_tokens));
  }
  metrics.model_tflops_per_s = flops / 1e12;
  if (peak_flops_ > 0) {
    peak_flops_ = std::max(peak_flops_, flops);
    metrics.mfu = flops / peak_flops_;
  }
  return metrics;
}

void StepReporter::add_unit_norms(const TrainStep::Result& result, StepMetrics& metrics) const {
  if (result.unit_squares.empty()) return;
  std::vector<double> squares = result.unit_squares;
  parts_.comm.all_reduce(squares.data(), squares.size(), DType::kF64, ReduceOp::kSum, "norms of units")
      .wait();
  for (std::size_t i = 0; i < squares.size(); ++i)
    metrics.unit_grad_norms.emplace_back(parts_.state.model.units()[i]->name(), std::sqrt(squares[i]));
}

void StepReporter::line(const TrainStep::Result& result, double lr,
                        const std::optional<ValidationResult>& validation) {
  StepMetrics metrics = measure(result, lr);
  add_unit_norms(result, metrics);
  stalled_s_ = 0;
  metrics.evaluation = result.preferences;
  if (validation) {
    metrics.validation_loss = validation->loss;
    metrics.validation_accuracy = validation->accuracy;
    metrics.rouge = validation->rouge;
    for (const auto& [source, loss] : validation->losses)
      metrics.evaluation.emplace_back("validation_loss/" + source, loss);
    for (const TaskResult& task : validation->tasks) {
      for (const auto& [name, score] : task.scores)
        metrics.evaluation.emplace_back(str("eval/", task.name, '/', name), score);
    }
  }
  parts_.metrics.append(metrics);
  parts_.progress.line(metrics);
}

void StepReporter::memory(double step_s, bool asked) const {
  const MemoryReport report = memory_report(parts_.state);
  const auto tell = asked ? log::info : log::note;
  tell(describe(report, true));
  const ShardedModel::Times times = parts_.state.model.times();
  const double passes = static_cast<double>(std::max<std::int64_t>(1, times.passes));
  tell(str("around ", times.passes, " passes of units: ", std::round(times.host_s / passes * 1e7) / 10,
           " us each for casts, book-keeping and issuing, ",
           std::round(times.waiting_s() / passes * 1e7) / 10, " us each waiting for collectives"));
  if (!options_.on_measured) return;
  options_.on_measured({.step = parts_.state.step,
                        .memory = report,
                        .device_bytes = options_.peak_device_bytes ? options_.peak_device_bytes() : 0,
                        .step_s = step_s,
                        .sent_bytes = sent_bytes_});
}

}  // namespace echelon
