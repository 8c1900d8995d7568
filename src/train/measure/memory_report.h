#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "train/train_state.h"

namespace echelon {

/// Bytes of this rank by purpose. Exact: every buffer is counted when it is allocated and freed.
struct MemoryReport {
  std::int64_t weights = 0;           ///< master slices
  std::int64_t gradients = 0;         ///< slices
  std::int64_t optimizer = 0;         ///< states
  std::int64_t averaged = 0;          ///< averaged weights (EMA)
  BufferPool::Bytes gathered;         ///< whole weights of units
  BufferPool::Bytes outgoing;         ///< whole gradients of units
  BufferPool::Bytes staging;          ///< casts, copies between devices, parts kept for backward
  std::int64_t pool = 0;              ///< allocated by the pool for these three
  bool offloaded = false;             ///< the first four are in host memory beside a device
  std::int64_t tensors_peak = 0;      ///< all host tensors, those above included
  std::int64_t tensors_reserved = 0;  ///< obtained from the system for tensors
  std::int64_t resident_peak = 0;     ///< of the process

  [[nodiscard]] std::int64_t persistent() const { return weights + gradients + optimizer + averaged; }
  /// Activations and temporaries at the peak of all tensors. Meaningful only if the model is in host memory.
  [[nodiscard]] std::int64_t activations_peak() const { return tensors_peak - persistent() - pool; }
};

[[nodiscard]] MemoryReport memory_report(const TrainState& state);

/// The categories of forecast.json and metrics.jsonl, in their order.
struct MemoryCategory {
  const char* name;
  std::int64_t bytes;
};
/// `device_bytes`: peak of the device that computes; 0: the host does.
[[nodiscard]] std::array<MemoryCategory, 9> categories(const MemoryReport& report,
                                                       std::uint64_t device_bytes);

/// One line of text. `peaks`: includes the peaks of a step, and what the process has now.
[[nodiscard]] std::string describe(const MemoryReport& report, bool peaks);

/// Resident set size of the process, from /proc/self/statm.
[[nodiscard]] std::int64_t resident_bytes();
/// Maximum of resident_bytes() since the process started.
[[nodiscard]] std::int64_t peak_resident_bytes();

}  // namespace echelon
