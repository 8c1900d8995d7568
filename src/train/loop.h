#pragma once
#include <functional>
#include <memory>

#include "comm/activity.h"
#include "comm/communicator.h"
#include "data/batch_stream.h"
#include "optim/options.h"
#include "run/agreed_stop.h"
#include "run/deadline.h"
#include "run/ledger.h"
#include "run/metrics.h"
#include "run/options.h"
#include "run/progress.h"
#include "run/report_request.h"
#include "text/tokenizer.h"
#include "train/epochs.h"
#include "train/eval/validation.h"
#include "train/options.h"
#include "train/save/checkpointer.h"
#include "train/train_state.h"

namespace echelon {

/// What the loop needs to know of the recipe.
struct LoopOptions {
  TrainOptions train;
  OptimOptions optim;
  ScheduleOptions schedule;
  MetricsOptions metrics;
  DataOptions data;
  std::uint64_t seed = 1;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< of texts generated in validation; null: none are
  std::shared_ptr<Activity> activity = std::make_shared<Activity>();  ///< told what the loop does
  double peak_flops = 0;                             ///< of one rank's device, for MFU; 0: unknown
  std::function<std::uint64_t()> peak_device_bytes;  ///< empty on the CPU
};

/// What counts and tells the time on rank 0; null elsewhere.
struct Clocks {
  Deadline* deadline = nullptr;
  Ledger* ledger = nullptr;
};

enum class RunEnd { kFinished, kStopped };

/// The training loop of one rank: from state.step to train.steps (train.epochs has become steps already), or
/// to the step after a stop that the ranks agreed on. Collective. Saves at intervals, at the end and on a
/// stop. A step whose loss or gradients are not finite never touches the weights: it is left out, or ends the
/// run with Error(kTraining), as train.non_finite says. Error(kCheckpoint) when the last save fails; an
/// earlier failing save is logged and tried again at the next interval.
class TrainLoop {
 public:
  /// `validation` may be null. `metrics` is null on every rank but 0.
  TrainLoop(const LoopOptions& options, TrainState& state, Checkpointer& checkpointer, Communicator& comm,
            AgreedStop& stop, const Clocks& clocks, const Loader* validation, const RunFolder& folder,
            MetricsFile* metrics, Progress& progress);

  [[nodiscard]] RunEnd run();

 private:
  struct StepResult {
    double loss = 0;
    double grad_norm = 0;  ///< of the mean loss, before clipping
    bool save = false;     ///< the clock says so
  };
  /// Sums over this rank's micro-batches.
  struct Sums {
    double loss = 0;
    double targets = 0;  ///< predictions that count
    double tokens = 0;   ///< of sequences, those of targets included
  };
  [[nodiscard]] StepResult step(std::int64_t number, double lr);
  [[nodiscard]] Sums accumulate_gradients(double scale);
  /// Gradients as they stand, times `gradient_factor`, move the weights.
  void update_weights(std::int64_t number, double lr, double grad_norm, double gradient_factor);
  /// For a message: what there is to go on from.
  [[nodiscard]] std::string what_is_saved() const;
  void skip_step(std::int64_t number, const StepResult& result);
  [[nodiscard]] bool validation_due(std::int64_t step) const;
  /// Rank 0, when step `number` is all but done: does the next one still fit?
  void look_at_clock(std::int64_t number);
  /// Nothing when a stop was decided before its end.
  [[nodiscard]] std::optional<ValidationResult> validate();
  /// `left_out`: the due validation was skipped.
  void announce_stop(bool left_out);
  void note_validation(double loss);
  void save(bool last);
  /// Memory by category and what surrounds the layers costs, to this rank's log.
  void report() const;
  [[nodiscard]] StepMetrics measure(const StepResult& result, double lr);
  void log_step(const StepResult& result, double lr, const std::optional<ValidationResult>& validation);
  /// Intervals between logged steps begin anew.
  void begin_interval();

  LoopOptions options_;
  TrainState& state_;
  Checkpointer& checkpointer_;
  Communicator& comm_;
  AgreedStop& stop_;
  Clocks clocks_;
  const Loader* validation_;
  const RunFolder& folder_;
  Epochs epochs_;
  BatchStream stream_;
  MetricsFile* metrics_;
  Progress& progress_;
  ReportRequest report_request_;
  double step_began_s_ = 0;  ///< when the clock was looked at last; later by what was not training
  double interval_began_s_ = 0;
  std::int64_t interval_steps_ = 0;
  double interval_waited_s_ = 0;       ///< for collectives, until the interval began
  double interval_data_waited_s_ = 0;  ///< for data, until the interval began
  double interval_tokens_ = 0;         ///< of all ranks
  std::int64_t skipped_in_a_row_ = 0;
};

}  // namespace echelon
