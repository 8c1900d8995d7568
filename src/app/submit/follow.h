#pragma once
#include <filesystem>
#include <string>

namespace echelon::submit {

/// The status of a job in Slurm.
struct JobStatus {
  std::string state;   ///< "PENDING", "RUNNING", "COMPLETED" ...
  std::string reason;  ///< why it is pending: "Resources", "JobHeldUser" ...
  int exit_code = 0;   ///< of the script
  int signal = 0;      ///< the signal that ended the script; 0: none

  /// The job has ended and is not requeued.
  [[nodiscard]] bool is_over() const;
  /// The job is queued, but cannot start without intervention.
  [[nodiscard]] bool is_stuck() const;
  /// The exit code of a command that waited for the job: the script's exit code, or 128 + signal; 85 if the
  /// job is not over (it is stuck); 3 if Slurm ended it (TIMEOUT, NODE_FAIL, CANCELLED ...) with neither code
  /// nor signal.
  [[nodiscard]] int exit_status() const;
};

/// Parses the output of `scontrol --oneliner show job N`. Throws Error(kEnvironment) for other text.
[[nodiscard]] JobStatus parse_job(const std::string& text);

/// Prints the job's log as it grows (standard output) and each change of its state (standard error), until
/// the job is over or stuck. Returns exit_status(). Throws Error(kEnvironment) if Slurm does not answer for
/// ten minutes, no longer knows the job, or standard output cannot be written.
int follow_job(const std::string& job, const std::filesystem::path& log);

}  // namespace echelon::submit
