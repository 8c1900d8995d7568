#pragma once
#include <poll.h>

#include <string>

#include "app/launcher/mpirun_talk.h"
#include "base/files/fs.h"

namespace echelon::app {

/// Passes what a child process and its descendants write on to a stream of this one. When nobody reads that
/// stream any more (a pager was closed) the rest is thrown away: mpirun itself ends its ranks after some
/// failed writes. This process must ignore SIGPIPE. Has no thread: the child's death signal
/// (PR_SET_PDEATHSIG) comes once for every thread of its parent, and mpirun takes a second SIGTERM as an
/// order to go without its ranks.
class OutputRelay {
 public:
  enum class Talk { kPassed, kLeftOut };
  /// `stream`: STDOUT_FILENO or STDERR_FILENO; `talk`: mpirun's own (MpirunTalk). Throws Error(kEnvironment).
  explicit OutputRelay(int stream, Talk talk = Talk::kPassed);

  /// What the child has as its stream.
  [[nodiscard]] int entry() const { return entry_.get(); }
  /// In the child, before exec: it keeps both ends even if this process is killed. mpirun crashes at a write
  /// that nobody can read, and would leave its ranks behind; and what only ranks write to (offer_to_ranks())
  /// ends with mpirun, not before the first of them.
  void keep_ends() const;
  /// After the fork: the child alone can write from now on.
  void begin();

  /// Number of this process's descriptor by which others may open it (offer_to_ranks()).
  [[nodiscard]] int reader() const { return exit_.get(); }

  /// What to poll for before the next pass_on().
  [[nodiscard]] pollfd awaited() const;
  /// Takes what awaited() has found there, or gives it to the stream. Does not block.
  void pass_on();
  /// Child and descendants have closed their ends, and all that they wrote was passed on.
  [[nodiscard]] bool done() const { return !exit_.valid() && pending_.empty(); }
  /// Could all of it be given to the stream?
  [[nodiscard]] bool whole() const { return read_; }

 private:
  int stream_;
  Talk talk_;
  MpirunTalk filter_;
  bool read_ = true;     ///< does anybody read the stream?
  std::string pending_;  ///< taken from the child, not yet given to the stream
  fs::Fd exit_;
  fs::Fd entry_;
};

/// Before the fork: ranks can write to these without mpirun in between, which may hand on whole lines only
/// and make line ends of the carriage returns of a progress line (that of Open MPI 5).
void offer_to_ranks(const OutputRelay& out, const OutputRelay& err);
/// In a rank, before it writes anything: its streams are what launch_local_ranks() has offered, if it did.
void use_offered_output();

}  // namespace echelon::app
