#pragma once
#include <memory>

#include "model/ops/device_kernels.h"

namespace echelon::book {

/// GPU kernels that record what they are called for.
[[nodiscard]] std::shared_ptr<const ops::DeviceKernels> recording_device_kernels();

}  // namespace echelon::book
