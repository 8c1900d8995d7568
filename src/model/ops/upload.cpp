#include "model/ops/upload.h"

#include <ATen/ATen.h>

namespace echelon {

at::Tensor upload(const at::Tensor& host, at::Device device) {
  if (device.is_cpu()) return host;
  // PyTorch's pool of page-locked memory gives it to nobody else before the copy is through.
  const at::Tensor locked = at::empty(host.sizes(), host.options().pinned_memory(true));
  locked.copy_(host);
  return locked.to(device, /*non_blocking=*/true);
}

}  // namespace echelon
