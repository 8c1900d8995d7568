#include "comm/peer_watch.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <functional>

namespace echelon {

PeerWatch::Process PeerWatch::this_process() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat space {};
  if (boot.empty() || stat("/proc/self/ns/pid", &space) != 0) return {.pid = getpid(), .machine = 0};
  const std::uint64_t machine =
      std::hash<std::string>{}(boot) ^ (static_cast<std::uint64_t>(space.st_ino) << 20);
  return {.pid = getpid(), .machine = machine};
}

PeerWatch::PeerWatch(const std::vector<Process>& processes, int own) : processes_(processes.size()) {
  const Process& mine = processes[static_cast<std::size_t>(own)];
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    if (static_cast<int>(rank) == own || processes[rank].machine == 0 ||
        processes[rank].machine != mine.machine)
      continue;
    // Kernels before 5.3 have no process handles: the rank is then not watched.
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
