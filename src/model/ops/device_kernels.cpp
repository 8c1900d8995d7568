#include "model/ops/device_kernels.h"

#include "base/error.h"

namespace echelon::ops {
namespace {

/// The plugin is loaded once in a process, and so are its kernels.
std::shared_ptr<const DeviceKernels>& installed() {
  static std::shared_ptr<const DeviceKernels> kernels;
  return kernels;
}

}  // namespace

void install_device_kernels(std::shared_ptr<const DeviceKernels> kernels) {
  installed() = std::move(kernels);
}

const DeviceKernels& device_kernels() {
  if (installed() == nullptr) {
    throw Error(
        Code::kEnvironment,
        "a tensor lies on a GPU, but no GPU kernels are loaded; expected libechelon_cuda.so to be loaded "
        "first (train.device)");
  }
  return *installed();
}

}  // namespace echelon::ops
