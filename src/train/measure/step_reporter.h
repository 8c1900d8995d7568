#pragma once
#include <optional>
#include <vector>

#include "train/eval/validation.h"
#include "train/interval_clock.h"
#include "train/loop_parts.h"
#include "train/train_step.h"

namespace echelon {

/// Reports on the steps of a run: lines of metrics over the interval since the previous line, the status
/// line, and memory in every rank's log. All constructor arguments must outlive it.
class StepReporter {
 public:
  StepReporter(const LoopOptions& options, const LoopParts& parts, const TrainStep& step)
      : options_(options), parts_(parts), step_(step), peak_flops_(options.peak_flops) {}

  /// Starts the interval of the next line.
  void begin_interval() { interval_.begin(reading()); }
  void step_ended(const TrainStep::Result& result) {
    interval_.step_ended(result.tokens);
    sent_bytes_ = result.sent_bytes;
  }
  [[nodiscard]] IntervalClock::Reading reading() const;
  /// Excludes the time between two readings, in which nothing was trained, from the step times.
  void pause(const IntervalClock::Reading& from, const IntervalClock::Reading& to) {
    interval_.pause(from, to);
  }
  /// Training waited for a save for so long.
  void stalled(double seconds) { stalled_s_ += seconds; }
  /// Mean seconds per step of the interval.
  [[nodiscard]] double step_s() const;

  /// A line of metrics. Collective.
  void line(const TrainStep::Result& result, double lr, const std::optional<ValidationResult>& validation);
  /// Logs memory by category, and the time spent around the layers, to this rank's log. `step_s`: mean
  /// duration of the last steps; `asked`: somebody waits for it, so it is no detail.
  void memory(double step_s, bool asked) const;

 private:
  /// One rank's values for the steps of a line, which it sends to the others. Plain numbers.
  struct RankValues;
  [[nodiscard]] RankValues mine(const IntervalClock::Means& means) const;
  void add_ranks(const std::vector<RankValues>& ranks, StepMetrics& metrics) const;
  [[nodiscard]] StepMetrics measure(const TrainStep::Result& result, double lr);
  void add_unit_norms(const TrainStep::Result& result, StepMetrics& metrics) const;

  const LoopOptions& options_;
  const LoopParts& parts_;
  const TrainStep& step_;
  double peak_flops_;  ///< of a rank: as measured at the start, or what a faster step showed since
  IntervalClock interval_;
  double sent_bytes_ = 0;  ///< in the last step
  double stalled_s_ = 0;   ///< by saves, since the last line
};

}  // namespace echelon
