#pragma once
#include <optional>

#include "train/epochs.h"
#include "train/eval/validation.h"
#include "train/interval_clock.h"
#include "train/loop_parts.h"
#include "train/train_step.h"

namespace echelon {

/// Reports on the steps of a run: lines of metrics over the interval since the previous line, the status
/// line, and memory in every rank's log. All constructor arguments must outlive it.
class StepReporter {
 public:
  StepReporter(const LoopOptions& options, const LoopParts& parts, const Epochs& epochs,
               const TrainStep& step)
      : options_(options), parts_(parts), epochs_(epochs), step_(step) {}

  /// Starts the interval of the next line.
  void begin_interval() { interval_.begin(reading()); }
  void step_ended(const TrainStep::Result& result) {
    interval_.step_ended(result.tokens);
    sent_bytes_ = result.sent_bytes;
  }
  /// Excludes `seconds` without training from the step times.
  void pause(double seconds) { interval_.pause(seconds); }
  /// Mean seconds per step of the interval.
  [[nodiscard]] double step_s() const;

  /// A line of metrics. Collective.
  void line(const TrainStep::Result& result, double lr, const std::optional<ValidationResult>& validation);
  /// Logs memory by category, and the time spent around the layers, to this rank's log. `step_s`: mean
  /// duration of the last steps.
  void memory(double step_s) const;

 private:
  [[nodiscard]] IntervalClock::Reading reading() const;
  [[nodiscard]] StepMetrics measure(const TrainStep::Result& result, double lr) const;

  const LoopOptions& options_;
  const LoopParts& parts_;
  const Epochs& epochs_;
  const TrainStep& step_;
  IntervalClock interval_;
  double sent_bytes_ = 0;  ///< in the last step
};

}  // namespace echelon
