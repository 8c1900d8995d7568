#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "base/not_copied.h"

namespace echelon::book {

/// Bytes of tensors on the recording GPU. No memory is allocated: addresses are made up.
struct DeviceBytes {
  std::int64_t live = 0;
  std::int64_t peak = 0;           ///< of `live`
  std::int64_t peak_reserved = 0;  ///< what PyTorch's caching allocator would have taken from the device
};
[[nodiscard]] DeviceBytes device_bytes();
/// DeviceBytes::peak becomes what is live.
void reset_device_peak();
/// Starts to count anew. Call it only while no tensor of the device lives.
void forget_device_bytes();

/// Makes PyTorch's PrivateUse1 a GPU that only records; once per process.
[[nodiscard]] at::Device recording_device();

/// While it lives, every ATen operation on CPU tensors and on the recording device is recorded instead of
/// computed, and recording_kernels() replace the CPU kernels. Contents of tensors are then undefined, and
/// every number that the host reads from one is 1. At most one at a time; process-wide; one thread may
/// compute meanwhile. CPU tensors take address space only, if HostMemory is installed.
class Recording : NotCopied {
 public:
  Recording();
  ~Recording();

 private:
  int threads_;  ///< of ATen, before
};

}  // namespace echelon::book
