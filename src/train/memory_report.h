#pragma once
#include <cstdint>
#include <string>

#include "train/train_state.h"

namespace echelon {

/// Bytes of this rank by what they are for. Exact: every buffer is counted where it is taken and given back.
struct MemoryReport {
  std::int64_t weights = 0;           ///< master slices
  std::int64_t gradients = 0;         ///< slices
  std::int64_t optimizer = 0;         ///< states
  std::int64_t averaged = 0;          ///< average of the weights
  BufferPool::Bytes gathered;         ///< whole weights of units
  BufferPool::Bytes outgoing;         ///< whole gradients of units
  BufferPool::Bytes staging;          ///< casts, copies between devices, parts kept for backward
  std::int64_t pool = 0;              ///< held for these three
  std::int64_t tensors_peak = 0;      ///< all host tensors, those above included
  std::int64_t tensors_reserved = 0;  ///< from the system, for them
  std::int64_t compiled = 0;          ///< code that libraries compiled for the shapes of products
  std::int64_t resident_peak = 0;     ///< of the process

  [[nodiscard]] std::int64_t persistent() const { return weights + gradients + optimizer + averaged; }
  /// Activations and temporaries at the peak of all tensors; meaningful where tensors are in host memory.
  [[nodiscard]] std::int64_t activations_peak() const { return tensors_peak - persistent() - pool; }
};

[[nodiscard]] MemoryReport memory_report(const TrainState& state);

/// One line. `peaks`: also what a step has taken at most.
[[nodiscard]] std::string describe(const MemoryReport& report, bool peaks);

/// What the process holds in memory now; read from /proc/self/statm.
[[nodiscard]] std::int64_t resident_bytes();
/// Of it, executable memory that comes from no file: what a library compiled while the process ran.
[[nodiscard]] std::int64_t compiled_code_bytes();
/// The most it has held.
[[nodiscard]] std::int64_t peak_resident_bytes();

}  // namespace echelon
