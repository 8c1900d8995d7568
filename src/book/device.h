#pragma once
#include <ATen/core/Tensor.h>

#include "base/not_copied.h"
#include "book/caching_allocator.h"

namespace echelon::book {

/// The memory of the recording GPU's tensors. Nothing is allocated: addresses are made up. Assign a new one
/// to count anew, but only while no tensor of the device lives.
[[nodiscard]] CachingAllocator& device_memory();

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
