#pragma once
#include <memory>

#include "model/ops/device_kernels.h"

namespace echelon::book {

/// Returns GPU kernels that record their calls instead of computing.
[[nodiscard]] std::shared_ptr<const ops::DeviceKernels> recording_device_kernels();

}  // namespace echelon::book
