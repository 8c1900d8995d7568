#pragma once
#include <ATen/core/ScalarType.h>

#include "comm/communicator.h"

namespace echelon::app {

/// The reference rate of the metric `mfu` on CPUs: FLOP/s of one rank in matrix products of `type`, with the
/// kernels and threads of training. All ranks measure at the same time, since they also compute at the same
/// time. Returns the mean over the ranks of each rank's best product within 0.1 s. Collective.
[[nodiscard]] double cpu_product_rate(at::ScalarType type, Communicator& comm);

}  // namespace echelon::app
