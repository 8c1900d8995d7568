#include "comm/peer_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>

#include "base/process/process.h"

namespace echelon {

PeerWatch::Process PeerWatch::this_process() {
  const std::string space = process_space();
  return {.pid = getpid(), .machine = space.empty() ? 0 : std::hash<std::string>{}(space)};
}

PeerWatch::PeerWatch(const std::vector<Process>& processes, int own) : processes_(processes.size()) {
  const Process& mine = processes[static_cast<std::size_t>(own)];
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    if (static_cast<int>(rank) == own || processes[rank].machine == 0 ||
        processes[rank].machine != mine.machine)
      continue;
    // A process handle and not a process id, which could be reused. Kernels before 5.3 have none: the rank is
    // then not watched.
    processes_[rank] =
        fs::Fd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(processes[rank].pid), 0)));
  }
}

bool PeerWatch::ended(int world_rank) const {
  const fs::Fd& process = processes_[static_cast<std::size_t>(world_rank)];
  if (!process.valid()) return false;
  pollfd query{.fd = process.get(), .events = POLLIN, .revents = 0};
  return poll(&query, 1, 0) == 1;
}

}  // namespace echelon
