#pragma once
#include <torch/library.h>

namespace echelon::book {

/// Registers the recording function for every operation that has a kernel on a CPU, and for those that a
/// device without kernels would otherwise get made of others (copies, convolutions, fused attention). Before
/// the CPU's are replaced.
void record_on_device(torch::Library& library);

/// Has a kernel on a CPU and is recorded.
[[nodiscard]] bool is_recorded(const c10::OperatorName& name);

/// Registers it for every operation without a kernel of its own.
void record_the_rest(torch::Library& library);

}  // namespace echelon::book
