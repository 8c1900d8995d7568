#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace echelon {

/// Where all CPU tensors of the process live: an allocator that keeps what it got from the system, in huge
/// pages where there are any, and counts exactly. Blocks from 32 KiB come from a HostArena, smaller ones from
/// malloc. Thread-safe.
class HostMemory {
 public:
  /// From now on CPU tensors are allocated here; earlier ones stay where they are. To be called before
  /// anything large is allocated; a second call changes nothing.
  static void install();

  /// As at::zeros({numel}, options), but what comes cleared from the system is not written again: it takes
  /// pages when it is first used.
  [[nodiscard]] static at::Tensor zeros(std::int64_t numel, const at::TensorOptions& options);

  /// Bytes of the tensors that exist, as asked for. Tensors from before install() do not count.
  [[nodiscard]] static std::int64_t live_bytes();
  /// The most there have been at the same time since the start or reset_peak().
  [[nodiscard]] static std::int64_t peak_bytes();
  /// What the process holds for them, whether in use or not. Never shrinks.
  [[nodiscard]] static std::int64_t reserved_bytes();
  static void reset_peak();
};

}  // namespace echelon
