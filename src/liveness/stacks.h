#pragma once
#include <pthread.h>

#include <cstdint>
#include <string>
#include <vector>

namespace echelon {

/// Shows where one thread of this process stands, while it runs on: a signal makes it note its own stack. One
/// object at a time; made on the thread that is to be shown.
class StackProbe {
 public:
  StackProbe();
  ~StackProbe();
  StackProbe(const StackProbe&) = delete;
  StackProbe& operator=(const StackProbe&) = delete;

  /// Innermost first, "name+0x12 (libx.so)"; empty when the thread does not react within a second (it is
  /// stopped, or in the kernel where no signal reaches it). From another thread.
  [[nodiscard]] std::vector<std::string> take() const;

 private:
  pthread_t thread_;
};

/// What the system says of a process of this node that gives no sign: "its process 1234 is stopped (a signal,
/// or a debugger)", "... is in the kernel and cannot be interrupted, in nfs_wait", ...
[[nodiscard]] std::string look_at_process(std::int64_t pid);

}  // namespace echelon
