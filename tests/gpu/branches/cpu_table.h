#pragma once
#include <memory>

#include "model/ops/device_kernels.h"

namespace echelon::ops {

/// A device's table of kernels made of the CPU's, for CPU tensors.
[[nodiscard]] std::shared_ptr<const DeviceKernels> cpu_table();

}  // namespace echelon::ops
