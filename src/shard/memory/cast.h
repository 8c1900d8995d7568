#pragma once
#include <ATen/core/Tensor.h>

namespace echelon {

/// Copies `slice` to `slot`, both 1-D with the same number of elements, of any floating-point types and on
/// any devices. On a GPU the copy is ordered by the current stream.
void cast_into(const at::Tensor& slice, const at::Tensor& slot);

}  // namespace echelon
