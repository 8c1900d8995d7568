#pragma once
#include <vector>

#include "app/doctor/finding.h"
#include "bootstrap/job.h"

namespace echelon::app::doctor {

/// Starts MPI and lets nodes exchange data in pairs, every pair of a round at the same time, at most 15
/// rounds; in a job on one node its ranks take the nodes' place. Collective. Every rank gets the findings mpi
/// and bandwidth; a node is slow where even its best pair reaches less than the share `slow` of the others'.
/// After a fault of `mpi` the process cannot use MPI any more. `timeout_s`: of every wait.
[[nodiscard]] std::vector<Finding> examine_network(Job& job, double timeout_s, double slow);

}  // namespace echelon::app::doctor
