#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "forecast/gpu_rates.h"
#include "forecast/rehearsed.h"
#include "forecast/timeline.h"

namespace echelon::forecast {

/// The rate at which a rank copies its state for a save: an estimate for one thread and memory that was used
/// before. A rank on an H100 reached 3.0e9 in its first save (docs/gpu.md).
constexpr double kCopyBytesPerS = 4e9;

/// The job's size and its limits.
struct OutlookOptions {
  JobShape job;
  std::int64_t steps = 0;               ///< of the whole run; 0: known only with the data
  std::int64_t save_every_steps = 0;    ///< 0: not by steps
  double save_every_s = 0;              ///< 0: not by time
  double save_for_failure_every_s = 0;  ///< by time, so that such failures cost least; 0: not that
  std::int64_t memory_every_steps = 0;  ///< saves to memory; 0: none
  double memory_bytes = 0;              ///< a rank's limit; 0: the device's, or unknown
  double context_bytes = 0;             ///< of a rank outside of tensors
  double disk_bytes_per_s = 1e9;        ///< per node
  double rank_bytes_per_s = 0;          ///< that a rank writes at most; 0: as fast as the disk
  double copy_bytes_per_s = 0;          ///< to the memory from which a save is written; 0: unknown
  bool waits_for_saves = false;         ///< checkpoint.async: false
  double node_days_to_failure = 0;      ///< mean days that one node runs without a failure; 0: not asked
  double restart_s = 300;               ///< from a failure to the first step after it
  double peak_flops = 0;                ///< of a rank's device, for MFU; 0: unknown
};

/// Bytes that one rank sends in a step.
struct Traffic {
  double sent = 0;                             ///< all of it
  std::map<std::string, double> by_operation;  ///< "all-gather", ...
  double peer = 0;                             ///< to ranks of the same node
  double network = 0;                          ///< to other nodes
};

/// The forecast of a run of the recipe.
struct Outlook {
  // Memory of a rank.
  double tensor_peak_bytes = 0;  ///< on the device that computes
  double peak_bytes = 0;         ///< with the allocator's gaps and what lies outside of tensors
  double limit_bytes = 0;        ///< 0: unknown
  [[nodiscard]] bool fits() const { return limit_bytes == 0 || peak_bytes <= limit_bytes; }
  std::string peak_place;  ///< "backward layers.3"

  Traffic traffic;
  double flops = 0;  ///< that a rank does in a step, recomputation included

  /// Nothing where no profile says how long operations take.
  struct Time {
    Timeline timeline;
    double step_s = 0;
    double samples_per_s = 0;
    double tokens_per_s = 0;
    double mfu = 0;  ///< model FLOPs, as metrics.jsonl counts them
    double hfu = 0;  ///< FLOPs done, recomputation included
    double save_due_s =
        0;  ///< seconds of training from one save to disk to the next, as the recipe asks; 0: no saves
    double trains = 1;  ///< share of time that the stalls of saves leave, and failures where asked for
    double run_s = 0;   ///< all steps, with what they leave out; 0: unknown
    double device_hours = 0;
    double goodput = 1;       ///< share of time that failures leave
    double save_every_s = 0;  ///< the interval that loses least; 0: not asked
    std::string limit;        ///< what takes most of the step, in words
  };
  std::optional<Time> time;

  double save_s = 0;             ///< until a checkpoint is on disk
  double stall_s = 0;            ///< for which training waits at a save
  double node_memory_saves = 0;  ///< bytes on each node of checkpoints in memory: two, with copies
};

/// `rates`: null where unknown.
[[nodiscard]] Outlook look_ahead(const Rehearsed& rehearsed, const OutlookOptions& options,
                                 const Rates* rates);

}  // namespace echelon::forecast
