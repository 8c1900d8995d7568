#pragma once
#include <ATen/core/Tensor.h>

namespace echelon {

/// One pass from a slice to its place in a buffer of as many elements, whatever the two types and devices. On
/// a device in the order of the current stream.
void cast_into(const at::Tensor& slice, const at::Tensor& slot);

}  // namespace echelon
