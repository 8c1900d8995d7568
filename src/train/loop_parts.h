#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "comm/activity.h"
#include "comm/communicator.h"
#include "optim/options.h"
#include "profile/options.h"
#include "run/agreed_stop.h"
#include "run/deadline.h"
#include "run/ledger.h"
#include "run/metrics.h"
#include "run/options.h"
#include "run/progress.h"
#include "run/run_folder.h"
#include "train/eval/generation_score.h"
#include "train/eval/run_evaluation.h"
#include "train/measure/memory_report.h"
#include "train/memory/memory_saves.h"
#include "train/options.h"
#include "train/save/checkpointer.h"
#include "train/train_state.h"

namespace echelon {

/// The needs of one rank, measured at the end of some step.
struct MeasuredStep {
  std::int64_t step = 0;
  MemoryReport memory;
  std::uint64_t device_bytes = 0;  ///< peak; 0 on the CPU
  double step_s = 0;               ///< mean of the steps since the previous line of metrics
  double sent_bytes = 0;           ///< by this rank, in the step itself
};

/// Values from the recipe and the machine that the loop needs.
struct LoopOptions {
  TrainOptions train;
  OptimOptions optim;
  ScheduleOptions schedule;
  MetricsOptions metrics;
  DataOptions data;
  std::uint64_t seed = 1;
  bool adapters = false;  ///< the model has LoRA's, which are checked
  TextOptions text;       ///< of validation and evaluation, where they ask for texts
  std::shared_ptr<Activity> activity = std::make_shared<Activity>();  ///< receives what the loop is doing
  ProfileRange profile;                                               ///< steps to be profiled
  double peak_flops = 0;                             ///< of one rank's device, for MFU; 0: unknown
  std::function<std::uint64_t()> peak_device_bytes;  ///< empty on the CPU
  /// Called after the first and the last step, and on request; may be empty.
  std::function<void(const MeasuredStep&)> on_measured;
};

/// The objects that the loop uses. All must outlive it.
struct LoopParts {
  TrainState& state;
  Checkpointer& checkpointer;
  Communicator& comm;  ///< all ranks, on the host; for what they agree on
  AgreedStop& stop;
  const RunFolder& folder;
  Progress& progress;
  MetricsFile& metrics;
  Deadline& deadline;
  Ledger& ledger;
  std::span<const ValidationSource> validation;  ///< empty: no validation
  RunEvaluation* evaluation = nullptr;           ///< null: no tasks
  MemorySaves* memory = nullptr;                 ///< null: nothing is saved to memory
};

}  // namespace echelon
