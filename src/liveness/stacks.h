#pragma once
#include <pthread.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/not_copied.h"

namespace echelon {

/// Captures the stack of a running thread of this process: a signal makes the thread record it. At most one
/// object at a time. Must be constructed on the thread whose stack is captured.
class StackProbe : NotCopied {
 public:
  StackProbe();
  ~StackProbe();

  /// Frames, innermost first, as "name (libx.so)". Empty if the thread does not react within a second: it is
  /// stopped, or in an uninterruptible system call. Call from another thread.
  [[nodiscard]] std::vector<std::string> take() const;

 private:
  pthread_t thread_;
};

/// Describes the state of a process of this node, from /proc: "its process 1234 is stopped by a debugger",
/// "its process 1234 has ended", ...
[[nodiscard]] std::string look_at_process(std::int64_t pid);

}  // namespace echelon
