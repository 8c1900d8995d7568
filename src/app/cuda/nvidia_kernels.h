#pragma once
#include <memory>

#include "model/ops/device_kernels.h"

namespace echelon::app {

/// The CUDA kernels of src/model/cuda, behind the tensor interface ops::DeviceKernels.
[[nodiscard]] std::shared_ptr<const ops::DeviceKernels> make_nvidia_kernels();

}  // namespace echelon::app
