#pragma once
#include <string>
#include <vector>

namespace echelon::app {

/// Starts `ranks` processes of `argv_of_one_rank` (program first) on this machine through Open MPI's mpirun,
/// which is also their PMIx server, and waits for them. Their output passes through as it is, through pipes
/// of this process if they ask for them (use_offered_output()); standard input is closed. SIGTERM, SIGINT and
/// SIGUSR2 sent to this process reach every rank exactly once and do not end this one: the ranks decide. If
/// this process dies, whatever the way, the ranks are ended too.
///
/// Returns 0 or the exit code of the first rank that failed; the others are then stopped, SIGKILL after a
/// second. A rank ended by a signal gives Code::kPeer and one line on standard error that names it. Throws
/// Error(kEnvironment): no mpirun, program not executable, processes cannot be started; all went well but
/// standard output did not take what the ranks printed.
[[nodiscard]] int launch_local_ranks(int ranks, const std::vector<std::string>& argv_of_one_rank);

}  // namespace echelon::app
