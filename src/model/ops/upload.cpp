#include "model/ops/upload.h"

#include <ATen/ATen.h>

namespace echelon {

at::Tensor page_locked(at::IntArrayRef shape, at::ScalarType type) {
  return at::empty(shape, at::TensorOptions(type).pinned_memory(true));
}

at::Tensor upload(const at::Tensor& host, at::Device device) {
  if (device.is_cpu()) return host;
  // May be freed at once: PyTorch's pool of page-locked memory does not reuse it before the copy is complete.
  const at::Tensor locked = page_locked(host.sizes(), host.scalar_type());
  locked.copy_(host);
  return locked.to(device, /*non_blocking=*/true);
}

}  // namespace echelon
