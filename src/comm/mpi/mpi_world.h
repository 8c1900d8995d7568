#pragma once
#include <memory>

#include "bootstrap/job.h"
#include "comm/communicator.h"
#include "comm/process_watch.h"

namespace echelon {

/// CPU ranks over MPI. `timeout_s` bounds every wait. Initializes MPI on first use; MPI must agree with `job`
/// about rank and size, else Error(kEnvironment). For a job of one rank no MPI call is made. Waits end with
/// Error(kPeer) within a tenth of a second once watch.failure is set. The first call of a process decides
/// which `watch` all its groups have.
[[nodiscard]] std::unique_ptr<Communicator> make_mpi_communicator(Job& job, double timeout_s,
                                                                  const ProcessWatch& watch = {});

/// Ends MPI if make_mpi_communicator started it. After all communicators are destroyed, before Job::finish().
void finish_mpi();

}  // namespace echelon
