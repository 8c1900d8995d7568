#pragma once
#include <string>
#include <vector>

namespace echelon::app {

/// Starts `ranks` processes of `argv_of_one_rank` (program first) on this machine through Open MPI's mpirun,
/// which is also their PMIx server, and waits for them. Their output is passed on unchanged, through pipes of
/// this process if they call use_offered_output(). Their standard input is /dev/null. SIGTERM, SIGINT,
/// SIGUSR2, SIGHUP and SIGQUIT sent to this process reach every rank exactly once. They do not end this
/// process: the ranks decide. If this process dies in any way, the ranks are ended too. Call it before other
/// threads are started: it blocks signals, ignores SIGPIPE and forks.
///
/// Returns 0 or the exit code of the first rank that failed; mpirun then stops the others, with SIGKILL after
/// a second. A rank ended by a signal gives Code::kPeer and one line on standard error that names it. An
/// mpirun that fails before there are ranks, or stays for twenty seconds after its ranks or a signal that
/// came before them, gives Code::kEnvironment and a line. Throws Error(kEnvironment) if there is no mpirun,
/// the program is not executable, processes cannot be started, or all ranks succeeded but their output could
/// not be written.
[[nodiscard]] int launch_local_ranks(int ranks, const std::vector<std::string>& argv_of_one_rank);

}  // namespace echelon::app
