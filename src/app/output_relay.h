#pragma once
#include <thread>

#include "base/fs.h"

namespace echelon::app {

/// Passes what a child process writes on to a stream of this one. When nobody reads that stream any more (a
/// pager was closed) the rest is thrown away: mpirun itself ends its ranks after some failed writes. This
/// process must ignore SIGPIPE. Used by one thread.
class OutputRelay {
 public:
  /// `stream`: STDOUT_FILENO or STDERR_FILENO. Throws Error(kEnvironment).
  explicit OutputRelay(int stream);
  OutputRelay(const OutputRelay&) = delete;
  OutputRelay& operator=(const OutputRelay&) = delete;
  ~OutputRelay();

  /// What the child has as its stream.
  [[nodiscard]] int entry() const { return entry_.get(); }
  /// In the child, before exec: it keeps a reader of its stream even if this process is killed. mpirun
  /// crashes at a write that nobody can read, and would leave its ranks behind.
  void keep_reader() const;
  /// After the fork: the child alone can write from now on.
  void begin();
  /// Waits until all that was written by child and descendants has been passed on.
  void finish();

 private:
  int stream_;
  fs::Fd exit_;
  fs::Fd entry_;
  std::thread thread_;
};

}  // namespace echelon::app
