#pragma once
#include <ATen/core/ScalarType.h>

#include "base/files/fs.h"
#include "comm/communicator.h"

namespace echelon::app {

/// The reference rate of the metric `mfu` on CPUs: FLOP/s of one rank in matrix products of `type`, with the
/// kernels and threads of training. All ranks measure at the same time, since they also compute at the same
/// time. What one start measures is the mean over the ranks of each rank's best product within 0.1 s; other
/// programs lower it. Returns the highest that any start of the run has measured under the same conditions:
/// processor and threads of rank 0, ranks, type. Rank 0 keeps these in `file`; a file that cannot be
/// read or written is a warning. Collective.
[[nodiscard]] double cpu_product_rate(at::ScalarType type, const fs::Path& file, Communicator& comm);

}  // namespace echelon::app
