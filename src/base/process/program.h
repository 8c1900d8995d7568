#pragma once
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <limits>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/fs.h"

namespace echelon {

/// How a program is run.
struct ProgramOptions {
  enum class Output {
    kKept,           ///< in the ProgramRun
    kStandardError,  ///< both streams go to this process's standard error
    kInherited,      ///< both streams are this process's
  };

  /// Seconds, after which the program is killed.
  double deadline_s = std::numeric_limits<double>::infinity();
  std::stop_token stop{};                 ///< a request kills the program, which has `timed_out` then
  std::function<void(pid_t)> on_start{};  ///< gets the program's process, in the calling thread
  /// The program gets its own process group: at the deadline the whole group is killed, and the terminal's
  /// Ctrl-C does not reach it. Otherwise Ctrl-C ends it like this process.
  bool own_group = true;
  Output output = Output::kKept;
  std::size_t most_output = std::size_t{1} << 20;  ///< bytes kept of each stream
  /// Gets standard output piece by piece as it comes, in the calling thread; empty: nobody.
  std::function<void(std::string_view)> on_output{};
  bool killed_beyond = false;            ///< kills a program that prints more; otherwise the rest is dropped
  std::vector<std::string> environment;  ///< "NAME=value" each; empty: that of this process
};

/// How a program ended.
struct ProgramRun {
  bool found = false;       ///< it could be started
  bool timed_out = false;   ///< it was killed at its deadline, or on request
  bool overflowed = false;  ///< it was killed for printing too much
  int status = -1;          ///< exit code, or 128 + signal
  std::string out;          ///< standard output, the first `most_output` bytes
  std::string err;          ///< standard error, the same
  double seconds = 0;

  [[nodiscard]] bool good() const { return found && !timed_out && !overflowed && status == 0; }
  /// One line for people: "scontrol did not answer within 10 s", "srun exits with 1: error: ...".
  [[nodiscard]] std::string trouble(const std::string& program) const;
};

/// Runs a program found through PATH, without a shell, with empty standard input, and waits for its end.
/// Throws Error(kEnvironment) if no process or pipe can be created at all.
[[nodiscard]] ProgramRun run_program(const std::vector<std::string>& argv, const ProgramOptions& options);
[[nodiscard]] inline ProgramRun run_program(const std::vector<std::string>& argv, double deadline_s) {
  return run_program(argv, {.deadline_s = deadline_s});
}

/// Both ends are closed in programs that are started, unless they become one of their streams.
struct Pipe {
  fs::Fd read;
  fs::Fd write;
};
/// Throws Error(kEnvironment).
[[nodiscard]] Pipe make_pipe();

/// The texts as execve(2) takes them. They must outlive the result.
[[nodiscard]] std::vector<char*> for_exec(const std::vector<std::string>& texts);

}  // namespace echelon
