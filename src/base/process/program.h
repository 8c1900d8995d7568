#pragma once
#include <string>
#include <vector>

namespace echelon {

/// How a program ended.
struct ProgramRun {
  bool found = false;      ///< it could be started
  bool timed_out = false;  ///< it was killed at its deadline
  int status = -1;         ///< exit code, or 128 + signal
  std::string out;         ///< standard output, the first MiB
  std::string err;         ///< standard error, the first MiB
  double seconds = 0;

  [[nodiscard]] bool good() const { return found && !timed_out && status == 0; }
  /// One line for people: "scontrol did not answer within 10 s", "srun exits with 1: error: ...".
  [[nodiscard]] std::string trouble(const std::string& program) const;
};

/// Runs a program found through PATH, without a shell, standard input closed, for at most `deadline_s`; it
/// and what it started in its process group are killed then. Throws Error(kEnvironment) when no process or
/// pipe can be made at all.
[[nodiscard]] ProgramRun run_program(const std::vector<std::string>& argv, double deadline_s);

}  // namespace echelon
