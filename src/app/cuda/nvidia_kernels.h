#pragma once
#include <memory>

#include "model/ops/device_kernels.h"

namespace echelon::app {

/// The kernels of model/cuda, called with tensors.
[[nodiscard]] std::shared_ptr<const ops::DeviceKernels> make_nvidia_kernels();

}  // namespace echelon::app
