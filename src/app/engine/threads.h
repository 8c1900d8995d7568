#pragma once
#include <cstdint>

#include "bootstrap/job.h"

namespace echelon::app {

/// Threads that this rank computes with: `wanted`, or where that is 0 what OMP_NUM_THREADS says, or else its
/// share of the node's usable cores.
void set_threads(std::int64_t wanted, const JobInfo& job);

}  // namespace echelon::app
