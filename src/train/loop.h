#pragma once
#include <memory>
#include <optional>
#include <string_view>

#include "base/not_copied.h"
#include "profile/profiler.h"
#include "run/signals.h"
#include "train/adapter_check.h"
#include "train/epochs.h"
#include "train/eval/validation.h"
#include "train/loop_parts.h"
#include "train/measure/step_reporter.h"
#include "train/train_step.h"

namespace echelon {

enum class RunEnd { kFinished, kStopped };

/// The training loop of one rank, from state.step to train.steps; train.epochs must already be converted to
/// steps. It ends earlier after the step in which the ranks agree to stop. Saves at intervals, at the end and
/// on a stop. Collective. Throws what TrainStep throws, and Error(kCheckpoint) if the last save fails.
/// Earlier failed saves are logged and retried at the next interval, but checkpoint.max_failures in a row
/// also throw.
class TrainLoop final : NotCopied, StepVotes {
 public:
  TrainLoop(LoopOptions options, const LoopParts& parts);

  [[nodiscard]] RunEnd run();

 private:
  // Stops and saves, as far as ranks agree on them in the reduction of a step.
  void vote(StepSums& mine) override;
  void heed(const StepSums& all) override;
  std::string give_up() override;

  [[nodiscard]] TrainStep::Result step(double lr);
  /// What is measured after a step.
  struct Due {
    bool validation = false;
    bool evaluation = false;
    [[nodiscard]] bool any() const { return validation || evaluation; }
  };
  [[nodiscard]] Due due_after(std::int64_t step) const;
  /// At the end of step `number`, before its reduction: requests a stop if the next step no longer fits
  /// before the deadline.
  void check_deadline(std::int64_t number);
  /// Validates, evaluates, or both. If a stop is decided meanwhile, returns what was finished, or nothing.
  [[nodiscard]] std::optional<ValidationResult> measure(const Due& due);
  [[nodiscard]] std::optional<ValidationResult> validate();
  /// Returns what was due and not `found` because of a stop; empty: nothing.
  [[nodiscard]] std::string_view left_out_of(const Due& due,
                                             const std::optional<ValidationResult>& found) const;
  void announce_stop(std::string_view left_out);
  /// Notes the step if it is the best so far, by the score of a task or by the validation loss.
  void record_best(const ValidationResult& result);
  void save(bool last);
  void save_to_memory();
  void end_profile();  ///< collective
  [[nodiscard]] double comm_wait_s() const { return step_.times().comm_wait_s(); }
  /// Excludes the time since `from`, in which nothing was trained, from the step times. Returns its seconds.
  double pause(const IntervalClock::Reading& from);

  const LoopOptions options_;
  const LoopParts parts_;
  Epochs epochs_;
  TrainStep step_;
  StepReporter reporter_;
  std::optional<AdapterCheck> adapters_;         ///< of a run with LoRA
  std::unique_ptr<profile::Profiler> profiler_;  ///< null: no profile is wanted
  ReportRequest report_request_;
  double step_began_s_ = 0;  ///< time of the last deadline check, moved forward by pauses
};

}  // namespace echelon
