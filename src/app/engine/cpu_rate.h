#pragma once
#include <ATen/core/ScalarType.h>

#include "comm/communicator.h"

namespace echelon::app {

/// What metrics' `mfu` is a share of where no device states its peak: FLOP/s of a rank in products of
/// matrices of `type`, by the kernels and with the threads that training uses. All ranks measure at the same
/// time, as they compute, the best product of a tenth of a second counts, and the mean over the ranks is
/// given. Collective.
[[nodiscard]] double cpu_product_rate(at::ScalarType type, Communicator& comm);

}  // namespace echelon::app
