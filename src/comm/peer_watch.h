#pragma once
#include <vector>

#include "base/files/fs.h"

namespace echelon {

/// Tells which ranks on this machine have ended, long before a deadline would. Ranks on other machines count
/// as running. Not thread-safe.
class PeerWatch {
 public:
  /// A rank's process, as the other ranks know it.
  struct Process {
    std::int64_t pid = 0;
    std::uint64_t machine = 0;  ///< equal where process numbers mean the same: boot and PID namespace
  };
  [[nodiscard]] static Process this_process();

  /// `processes`: one per world rank; `own`: this one's number.
  PeerWatch(const std::vector<Process>& processes, int own);

  [[nodiscard]] bool ended(int world_rank) const;

 private:
  std::vector<fs::Fd> processes_;  ///< process handles; invalid: not watched
};

}  // namespace echelon
