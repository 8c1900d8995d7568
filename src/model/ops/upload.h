#pragma once
#include <ATen/core/Tensor.h>

namespace echelon {

/// Page-locked host memory for asynchronous copies to and from a GPU. Contents undefined.
[[nodiscard]] at::Tensor page_locked(at::IntArrayRef shape, at::ScalarType type);

/// Returns `host` on `device`; on the CPU `host` itself. Copies to a GPU go through page-locked memory, in
/// the order of the current stream: `host` may change at once, and the host does not block once PyTorch's
/// pool has memory of that size.
[[nodiscard]] at::Tensor upload(const at::Tensor& host, at::Device device);

}  // namespace echelon
