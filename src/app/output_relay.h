#pragma once
#include <poll.h>

#include <string>

#include "app/mpirun_talk.h"
#include "base/fs.h"

namespace echelon::app {

/// Passes what a child process writes on to a stream of this one. When nobody reads that stream any more (a
/// pager was closed) the rest is thrown away: mpirun itself ends its ranks after some failed writes. This
/// process must ignore SIGPIPE. Has no thread: the child's death signal (PR_SET_PDEATHSIG) comes once for
/// every thread of its parent, and mpirun takes a second SIGTERM as an order to go without its ranks.
class OutputRelay {
 public:
  enum class Talk { kPassed, kLeftOut };
  /// `stream`: STDOUT_FILENO or STDERR_FILENO; `talk`: mpirun's own (MpirunTalk). Throws Error(kEnvironment).
  explicit OutputRelay(int stream, Talk talk = Talk::kPassed);

  /// What the child has as its stream.
  [[nodiscard]] int entry() const { return entry_.get(); }
  /// In the child, before exec: it keeps a reader of its stream even if this process is killed. mpirun
  /// crashes at a write that nobody can read, and would leave its ranks behind.
  void keep_reader() const;
  /// After the fork: the child alone can write from now on.
  void begin();

  /// What to poll for before the next pass_on().
  [[nodiscard]] pollfd awaited() const;
  /// Takes what awaited() has found there, or gives it to the stream. Does not block.
  void pass_on();
  /// Child and descendants have closed their ends, and all that they wrote was passed on.
  [[nodiscard]] bool done() const { return !exit_.valid() && pending_.empty(); }

 private:
  int stream_;
  Talk talk_;
  MpirunTalk filter_;
  bool read_ = true;     ///< does anybody read the stream?
  std::string pending_;  ///< taken from the child, not yet given to the stream
  fs::Fd exit_;
  fs::Fd entry_;
};

}  // namespace echelon::app
