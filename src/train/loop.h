#pragma once
#include <functional>

#include "comm/communicator.h"
#include "train/checkpointer.h"
#include "train/metrics.h"
#include "train/options.h"
#include "train/progress.h"
#include "train/stop_signal.h"
#include "train/train_state.h"

namespace echelon {

/// What the loop needs to know of the recipe.
struct LoopOptions {
  TrainOptions train;
  OptimOptions optim;
  ScheduleOptions schedule;
  MetricsOptions metrics;
  std::int64_t seq_len = 0;
  std::int64_t validation_batches = 0;
  double peak_flops = 0;                             ///< of one rank's device, for MFU; 0: unknown
  std::function<std::uint64_t()> peak_device_bytes;  ///< empty on the CPU
};

enum class RunEnd { kFinished, kStopped };

/// The training loop of one rank: from state.step to train.steps, or to the step after a stop signal on any
/// rank. Collective. Saves at intervals, at the end and on a stop. Throws Error(kTraining) when loss or
/// gradients stop being finite (before they touch the weights) and Error(kCheckpoint) when the last save
/// fails; an earlier failing save is logged and tried again at the next interval.
class TrainLoop {
 public:
  /// `validation` may be null. `metrics` is null on every rank but 0.
  TrainLoop(const LoopOptions& options, TrainState& state, Checkpointer& checkpointer, Communicator& comm,
            const Loader* validation, const RunFolder& folder, MetricsFile* metrics, Progress& progress);

  [[nodiscard]] RunEnd run();

 private:
  struct StepResult {
    double loss = 0;
    double grad_norm = 0;
    bool stop = false;
  };
  [[nodiscard]] StepResult step(std::int64_t number, double lr);
  [[nodiscard]] double accumulate_gradients();
  [[nodiscard]] double validate();
  void note_validation(double loss);
  void save(bool last);
  [[nodiscard]] StepMetrics measure(const StepResult& result, double lr);
  void log_step(const StepResult& result, double lr, std::optional<double> validation_loss);
  at::Tensor to_device(TokenBatch batch) const;

  LoopOptions options_;
  TrainState& state_;
  Checkpointer& checkpointer_;
  Communicator& comm_;
  const Loader* validation_;
  const RunFolder& folder_;
  MetricsFile* metrics_;
  Progress& progress_;
  StopSignal signal_;
  double interval_began_s_ = 0;
  std::int64_t interval_steps_ = 0;
};

}  // namespace echelon
