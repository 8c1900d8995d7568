#pragma once
#include <filesystem>
#include <string>

namespace echelon::submit {

/// A job as Slurm sees it.
struct JobStatus {
  std::string state;   ///< "PENDING", "RUNNING", "COMPLETED" ...
  std::string reason;  ///< of a pending job: "Resources", "JobHeldUser" ...
  int exit_code = 0;   ///< of the script
  int signal = 0;      ///< that ended it; 0: none

  /// It ended and does not come back by itself.
  [[nodiscard]] bool is_over() const;
  /// It is in the queue and will not start unless somebody does something.
  [[nodiscard]] bool is_stuck() const;
  /// What a command that waited for the job ends with: the script's exit code, 128 + signal, 85 for a job
  /// that is stuck, 3 for one that Slurm ended (TIMEOUT, NODE_FAIL, CANCELLED ...) without either.
  [[nodiscard]] int exit_status() const;
};

/// From the text of `scontrol --oneliner show job N`. Throws Error(kEnvironment) when it is none.
[[nodiscard]] JobStatus parse_job(const std::string& text);

/// Prints what the job writes to its log as it comes (standard output), and every change of its state
/// (standard error), until it is over or stuck. Returns exit_status(). Throws Error(kEnvironment) when Slurm
/// has not answered for ten minutes or no longer knows the job.
int follow_job(const std::string& job, const std::filesystem::path& log);

}  // namespace echelon::submit
