#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace echelon {

/// The allocator of all CPU tensors of the process. It never returns large blocks to the system, and counts
/// bytes exactly. Blocks of 32 KiB and more come from a HostArena, smaller ones from the C library.
/// Thread-safe.
class HostMemory {
 public:
  /// From this call on, CPU tensors are allocated here; existing ones stay where they are. Call before
  /// anything large is allocated. Further calls do nothing.
  static void install();

  /// Does what at::zeros({numel}, options) does, but does not write to memory that the system has already
  /// cleared; its pages are allocated at first use.
  [[nodiscard]] static at::Tensor zeros(std::int64_t numel, const at::TensorOptions& options);

  /// Bytes of existing tensors, as requested. Tensors allocated before install() are not counted.
  [[nodiscard]] static std::int64_t live_bytes();
  /// Maximum of live_bytes() since the start or the last reset_peak().
  [[nodiscard]] static std::int64_t peak_bytes();
  /// Bytes that the process holds for tensors, used or free. Only trim() decreases it.
  [[nodiscard]] static std::int64_t reserved_bytes();
  static void reset_peak();
  /// Returns memory behind the last tensor to the system.
  static void trim();
};

}  // namespace echelon
