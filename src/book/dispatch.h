#pragma once
#include <torch/library.h>

namespace echelon::book {

/// Registers the recording function for every operation that has a kernel on a CPU. It is also registered for
/// copies, convolutions and fused attention, which PyTorch would otherwise compose of other operations on a
/// device without kernels. Call it before the CPU's kernels are replaced.
void record_on_device(torch::Library& library);

/// Returns whether the operation has a kernel on a CPU and is recorded.
[[nodiscard]] bool is_recorded(const c10::OperatorName& name);

}  // namespace echelon::book
