#pragma once
#include <sys/types.h>

#include <vector>

#include "base/files/fs.h"

namespace echelon::app {

/// The processes that mpirun has started as ranks, found through /proc. mpirun offers no list, and of the
/// signals we pass on it would take SIGTERM and SIGINT for its own end. Not thread-safe.
class RankProcesses {
 public:
  RankProcesses(pid_t mpirun, int ranks) : mpirun_(mpirun), ranks_(ranks) {}

  [[nodiscard]] bool complete() const { return static_cast<int>(found_.size()) == ranks_; }
  /// Looks for further ranks; those get the signals of the past, too.
  void search();
  /// Sends a signal to every rank, those found later included.
  void signal(int number);
  [[nodiscard]] bool was_sent(int number) const;
  /// Handles that poll(2) reports as readable when the rank ends, parallel to ranks_watched().
  [[nodiscard]] std::vector<int> handles() const;
  /// Takes note that the rank of this handle has ended.
  void ended(int handle);
  /// Rank that ended first, or -1.
  [[nodiscard]] int first_ended() const { return first_ended_; }
  /// SIGKILL to all that are left, for when mpirun itself is gone.
  void kill_rest();

 private:
  struct Process {
    int rank;
    fs::Fd handle;
    bool ended = false;
  };
  void deliver(const Process& process, int number) const;

  pid_t mpirun_;
  int ranks_;
  std::vector<Process> found_;
  std::vector<pid_t> known_;
  std::vector<int> signals_;
  int first_ended_ = -1;
};

}  // namespace echelon::app
