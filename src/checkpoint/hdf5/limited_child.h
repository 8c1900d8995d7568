#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace echelon::checkpoint {

struct ChildLimits {
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;  ///< address space
  unsigned cpu_s = 60;
  unsigned timeout_s = 120;
};

struct ChildResult {
  std::string output;   ///< what the child wrote, at most 1 MiB; a hostile input may control it
  std::string failure;  ///< how it ended, for people: "ended by signal 11 (Segmentation fault)"; empty: well
};

/// Runs `body` in a child process that can only compute, read the one open file `input` and write its output:
/// no other file, no path, no process, no network (no_new_privs, resource limits, and a seccomp list of
/// allowed system calls, enforced by the kernel). For parsing untrusted input: a crash or an endless loop
/// ends only the child. `prepare` runs in the child before the limits. Throws Error(kEnvironment) when the
/// child cannot be limited like that.
[[nodiscard]] ChildResult run_limited(int input, const std::function<void()>& prepare,
                                      const std::function<std::string()>& body, const ChildLimits& limits);

}  // namespace echelon::checkpoint
