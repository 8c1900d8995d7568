#pragma once
#include <optional>

#include "run/report_request.h"
#include "train/epochs.h"
#include "train/eval/validation.h"
#include "train/loop_parts.h"
#include "train/step_reporter.h"
#include "train/train_step.h"

namespace echelon {

enum class RunEnd { kFinished, kStopped };

/// The training loop of one rank: from state.step to train.steps (train.epochs has become steps already), or
/// to the step after a stop that the ranks agreed on. Collective. Saves at intervals, at the end and on a
/// stop. Throws what TrainStep throws, and Error(kCheckpoint) when the last save fails; an earlier failing
/// save is logged and tried again at the next interval.
class TrainLoop {
 public:
  TrainLoop(LoopOptions options, const LoopParts& parts);
  TrainLoop(const TrainLoop&) = delete;
  TrainLoop& operator=(const TrainLoop&) = delete;

  [[nodiscard]] RunEnd run();

 private:
  [[nodiscard]] TrainStep::Result step(double lr);
  [[nodiscard]] bool validation_due(std::int64_t step) const;
  /// Rank 0, when step `number` is all but done: does the next one still fit?
  void check_deadline(std::int64_t number);
  /// Nothing when a stop was decided before its end.
  [[nodiscard]] std::optional<ValidationResult> validate();
  /// `left_out`: the due validation was skipped.
  void announce_stop(bool left_out);
  void record_validation(double loss);
  void save(bool last);
  /// For `seconds` there was no training.
  void pause(double seconds);

  const LoopOptions options_;
  const LoopParts parts_;
  Epochs epochs_;
  TrainStep step_;
  StepReporter reporter_;
  ReportRequest report_request_;
  double step_began_s_ = 0;  ///< when the deadline was checked last; later by what was not training
};

}  // namespace echelon
