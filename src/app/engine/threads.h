#pragma once
#include <cstdint>

#include "bootstrap/job.h"

namespace echelon::app {

/// Sets the number of compute threads of this rank: `wanted`; if that is 0, OMP_NUM_THREADS; if that is not
/// set, the rank's share of the node's usable cores.
void set_threads(std::int64_t wanted, const JobInfo& job);

/// Keeps freed memory in the process. Returning it to the kernel, which clears each page again at the next
/// use, costs a third of a step.
void keep_freed_memory();

}  // namespace echelon::app
