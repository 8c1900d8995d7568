#pragma once
#include <vector>

#include "app/doctor/finding.h"
#include "bootstrap/job.h"

namespace echelon::app::doctor {

/// Starts MPI and measures the exchange of data between pairs of nodes: all pairs of a round at the same
/// time, at most 15 rounds. In a job on one node, pairs of ranks are measured. Collective.
/// Every rank gets the findings `mpi` and `bandwidth`. A node is slow if its best pair is below the share
/// `slow` of the others (see judge_rates()). After a fault of `mpi` this process must not use MPI again.
/// `timeout_s`: limit of each wait.
[[nodiscard]] std::vector<Finding> examine_network(Job& job, double timeout_s, double slow);

}  // namespace echelon::app::doctor
