#pragma once
#include <sys/types.h>

#include <vector>

#include "base/files/fs.h"

namespace echelon::app {

/// The processes that mpirun started as ranks, found through /proc, because mpirun offers no list. Signals go
/// to the ranks directly: mpirun would take SIGTERM and SIGINT as an order to end. Not thread-safe.
class RankProcesses {
 public:
  RankProcesses(pid_t mpirun, int ranks) : mpirun_(mpirun), ranks_(ranks) {}

  [[nodiscard]] bool complete() const { return static_cast<int>(found_.size()) == ranks_; }
  /// Looks for further ranks. Ranks found late get all previous signals too.
  void search();
  /// Sends a signal to every rank, including those found later; SIGUSR1 to those that handle it now.
  void signal(int number);
  [[nodiscard]] bool was_sent(int number) const;
  /// One handle per running rank; poll(2) reports it as readable when the rank ends.
  [[nodiscard]] std::vector<int> handles() const;
  /// Records that the rank with this handle has ended.
  void ended(int handle);
  /// Whether mpirun should be ending: no known rank runs, and there has been one or a signal to end.
  [[nodiscard]] bool over() const;
  /// The rank that ended first, or -1.
  [[nodiscard]] int first_ended() const { return first_ended_; }
  /// Sends SIGKILL to all ranks; for the case that mpirun itself has died.
  void kill_rest();

 private:
  struct Process {
    int rank;
    pid_t pid;
    fs::Fd handle;
    bool ended = false;
  };
  void deliver(const Process& process, int number) const;

  pid_t mpirun_;
  int ranks_;
  std::vector<Process> found_;
  std::vector<int> signals_;
  int first_ended_ = -1;
};

}  // namespace echelon::app
