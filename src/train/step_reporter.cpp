#include "train/step_reporter.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "base/utc_time.h"
#include "comm/reduce_fields.h"
#include "shard/memory/host_memory.h"
#include "train/memory_report.h"

namespace echelon {
namespace {

/// Metrics that are reported as the maximum over ranks.
struct Largest {
  double resident_bytes = 0;
  double device_bytes = 0;
  double tensor_bytes = 0;
  double sent_bytes = 0;
  double step_s = 0;
  double comm_wait_s = 0;
  double data_wait_s = 0;
};

}  // namespace

IntervalClock::Reading StepReporter::reading() const {
  return {.now_s = steady_now_s(),
          .comm_waited_s = parts_.state.model.times().waiting_s,
          .data_waited_s = step_.data_waited_s()};
}

double StepReporter::step_s() const {
  return interval_.step_s(steady_now_s());
}

StepMetrics StepReporter::measure(const TrainStep::Result& result, double lr) const {
  const TrainState& state = parts_.state;
  const IntervalClock::Means means = interval_.means(reading());
  Largest largest{
      .resident_bytes = static_cast<double>(peak_resident_bytes()),
      .device_bytes = options_.peak_device_bytes ? static_cast<double>(options_.peak_device_bytes()) : 0,
      .tensor_bytes = static_cast<double>(HostMemory::peak_bytes()),
      .sent_bytes = sent_bytes_,
      .step_s = means.step_s,
      .comm_wait_s = means.comm_wait_s,
      .data_wait_s = means.data_wait_s};
  all_reduce_fields(parts_.comm, largest,
                    {&Largest::resident_bytes, &Largest::device_bytes, &Largest::tensor_bytes,
                     &Largest::sent_bytes, &Largest::step_s, &Largest::comm_wait_s, &Largest::data_wait_s},
                    ReduceOp::kMax, "metrics");
  const SampleSize size = state.data.sample_size();
  StepMetrics metrics{.step = state.step,
                      .time_s = utc_now_s(),
                      .loss = result.loss,
                      .lr = lr,
                      .grad_norm = result.grad_norm,
                      .epoch = static_cast<double>(state.step) / epochs_.length(),
                      .samples = state.position.next_sample,
                      .samples_per_s = static_cast<double>(options_.train.global_batch_size) / largest.step_s,
                      .step_time_s = largest.step_s,
                      .comm_wait_s = largest.comm_wait_s,
                      .data_wait_s = largest.data_wait_s,
                      .skipped_steps = state.skipped,
                      .peak_rss_bytes = static_cast<std::uint64_t>(largest.resident_bytes),
                      .peak_device_bytes = static_cast<std::uint64_t>(largest.device_bytes),
                      .tensor_peak_bytes = static_cast<std::uint64_t>(
                          options_.peak_device_bytes ? largest.device_bytes : largest.tensor_bytes),
                      .sent_bytes = static_cast<std::uint64_t>(largest.sent_bytes)};
  if (size.tokens > 0) {
    metrics.tokens = state.tokens;
    metrics.tokens_per_s = means.tokens / largest.step_s;
  }
  if (state.loss_scale.used()) metrics.loss_scale = state.loss_scale.factor();
  if (options_.peak_flops > 0) {
    const double flops =
        metrics.samples_per_s * state.model.model().flops_per_sample({size.tokens, size.target_tokens});
    metrics.mfu = flops / (options_.peak_flops * parts_.comm.size());
  }
  return metrics;
}

void StepReporter::line(const TrainStep::Result& result, double lr,
                        const std::optional<ValidationResult>& validation) {
  StepMetrics metrics = measure(result, lr);
  if (validation) {
    metrics.validation_loss = validation->loss;
    metrics.validation_accuracy = validation->accuracy;
    metrics.rouge = validation->rouge;
  }
  if (parts_.metrics != nullptr) parts_.metrics->append(metrics);
  parts_.progress.line(metrics);
}

void StepReporter::memory(double step_s) const {
  const MemoryReport report = memory_report(parts_.state);
  log::info(describe(report, true));
  const ShardedModel::Times times = parts_.state.model.times();
  const double passes = static_cast<double>(std::max<std::int64_t>(1, times.passes));
  log::info(str("around ", times.passes, " passes of units: ", std::round(times.host_s / passes * 1e7) / 10,
                " us each for casts, book-keeping and issuing, ",
                std::round(times.waiting_s / passes * 1e7) / 10, " us each waiting for collectives"));
  if (!options_.on_measured) return;
  options_.on_measured({.step = parts_.state.step,
                        .memory = report,
                        .device_bytes = options_.peak_device_bytes ? options_.peak_device_bytes() : 0,
                        .step_s = step_s,
                        .sent_bytes = sent_bytes_});
}

}  // namespace echelon
