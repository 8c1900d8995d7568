#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "forecast/trace.h"

namespace echelon::forecast {

/// Ranks of a job, numbered by node.
struct JobShape {
  int ranks = 1;
  int ranks_per_node = 1;
  [[nodiscard]] int nodes() const { return ranks / ranks_per_node; }
};

/// Bytes of one rank by purpose, as MemoryReport counts them in a run.
struct MemoryUse {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t averaged = 0;
  std::int64_t gathered = 0;         ///< at most
  std::int64_t whole_gradients = 0;  ///< at most
  std::int64_t staging = 0;          ///< at most
  std::int64_t pool = 0;             ///< allocated for these three
  std::int64_t device_peak = 0;      ///< tensors on the device that computes, those above included
  std::int64_t device_reserved = 0;  ///< what its allocator takes from the device
  std::int64_t host_peak = 0;        ///< in host memory: tensors and, beside a device, saves
  std::int64_t process = 0;          ///< of the process without tensors; 0: unknown
  bool offloaded = false;            ///< weights, gradients and optimizer are in host memory beside a device

  [[nodiscard]] std::int64_t persistent() const { return weights + gradients + optimizer + averaged; }
  /// Activations and temporaries at the peak.
  [[nodiscard]] std::int64_t activations() const {
    return device_peak - pool - (offloaded ? 0 : persistent());
  }
};

/// One rank of a job, whose steps the engine has carried out on the bookkeeping device.
struct Rehearsed {
  Trace step;               ///< of at most three micro-batches, of the steady state
  std::int64_t passes = 1;  ///< micro-batches of the recipe's step
  MemoryUse memory;
  std::string model;  ///< "llama"
  std::int64_t parameters = 0;
  std::int64_t units = 0;
  std::int64_t largest_unit = 0;       ///< bytes gathered
  std::string groups;                  ///< "2 groups of 8 ranks"
  std::vector<std::string> unit_tree;  ///< lines of text
  double model_flops = 0;              ///< of this rank's share of a step: flops_per_sample()
  double tokens_per_sample = 0;        ///< 0: not a token model
  std::int64_t samples = 0;            ///< of a step, over all ranks
  std::int64_t checkpoint_bytes = 0;   ///< over all ranks
  std::int64_t rank_checkpoint_bytes = 0;
};

}  // namespace echelon::forecast
