#pragma once
#include <poll.h>

#include <string>

#include "app/launcher/mpirun_talk.h"
#include "base/process/program.h"

namespace echelon::app {

/// Relays the output of a child process and its descendants to a stream of this process. If nobody reads the
/// stream any more (a pager was closed), the rest is discarded: mpirun would end its ranks after some failed
/// writes. This process must ignore SIGPIPE. Driven by poll() instead of a thread: the child's death signal
/// (PR_SET_PDEATHSIG) comes once for each thread of the parent, and on a second SIGTERM mpirun exits without
/// waiting for its ranks.
class OutputRelay {
 public:
  enum class Talk { kPassed, kLeftOut };
  /// `stream`: STDOUT_FILENO or STDERR_FILENO; `talk`: kLeftOut removes mpirun's own messages (MpirunTalk).
  /// Throws Error(kEnvironment).
  explicit OutputRelay(int stream, Talk talk = Talk::kPassed) : stream_(stream), talk_(talk) {}

  /// The descriptor that becomes the child's stream.
  [[nodiscard]] int entry() const { return pipe_.write.get(); }
  /// Keeps both ends of the pipe open in mpirun. Call it in the child, before exec. The read end, because
  /// mpirun crashes on a write without a reader and would leave its ranks behind if this process is killed.
  /// The write end, because a pipe that only ranks write to (offer_to_ranks()) must not end before the first
  /// rank opens it.
  void keep_ends() const;
  /// Closes the write end, so that the pipe ends with the child and its descendants. Call it in the parent,
  /// after the fork.
  void begin();

  /// The descriptor through which ranks open the pipe (offer_to_ranks()).
  [[nodiscard]] int reader() const { return pipe_.read.get(); }

  /// Returns the event to poll for before the next pass_on(): input, or room in the stream while output is
  /// pending.
  [[nodiscard]] pollfd awaited() const;
  /// Call when awaited() is ready: reads from the pipe, or writes pending output to the stream. Does not
  /// block.
  void pass_on();
  /// Returns whether all writers have closed their ends and all their output was passed on.
  [[nodiscard]] bool done() const { return !pipe_.read.valid() && pending_.empty(); }
  /// Returns whether all output could be written to the stream.
  [[nodiscard]] bool whole() const { return read_; }

 private:
  int stream_;
  Talk talk_;
  MpirunTalk filter_;
  bool read_ = true;     ///< whether somebody reads the stream
  std::string pending_;  ///< read from the child, not yet written to the stream
  Pipe pipe_ = make_pipe();
};

/// Lets ranks write to these relays directly, without mpirun. Call it before the fork. Open MPI 5's mpirun
/// may pass on whole lines only and turn the carriage returns of a progress line into line ends.
void offer_to_ranks(const OutputRelay& out, const OutputRelay& err);
/// Redirects a rank's streams to the pipes that launch_local_ranks() offered, if any. Call it before the rank
/// writes anything.
void use_offered_output();

}  // namespace echelon::app
