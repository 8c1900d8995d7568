#include "model/ops/device_kernels.h"

#include "base/error.h"

namespace echelon::ops {
namespace {

/// Process-wide, because the plugin is loaded once per process.
struct Installed {
  std::shared_ptr<const DeviceKernels> kernels;
  at::DeviceType device = at::DeviceType::CUDA;
};
Installed& installed() {
  static Installed only;
  return only;
}

}  // namespace

void install_device_kernels(std::shared_ptr<const DeviceKernels> kernels, at::DeviceType device) {
  installed() = {std::move(kernels), device};
}

const DeviceKernels* device_kernels(const at::Tensor& tensor) {
  const Installed& now = installed();
  if (tensor.device().type() == now.device && now.kernels != nullptr) return now.kernels.get();
  if (tensor.is_cuda()) {
    throw Error(
        Code::kEnvironment,
        "a tensor is on a GPU, but no GPU kernels are loaded; expected libechelon_cuda.so to be loaded "
        "first (train.device)");
  }
  return nullptr;
}

}  // namespace echelon::ops
