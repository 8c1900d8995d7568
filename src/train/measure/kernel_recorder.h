#pragma once
#include <ATen/core/Tensor.h>

#include <memory>

#include "profile/kernels.h"

namespace echelon {

/// Records what `device` runs, by PyTorch's profiler (Kineto, which uses CUPTI on a GPU). On the CPU it
/// records operations of the thread that calls begin(), which must call end() too.
[[nodiscard]] std::unique_ptr<profile::KernelRecorder> make_kernel_recorder(at::Device device);

}  // namespace echelon
