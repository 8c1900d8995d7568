#pragma once
#include <optional>
#include <string_view>

/// The end of the job, as its surroundings state it. Seconds since 1970; infinity: the job has no end.
namespace echelon {

/// Parses squeue's answer for a job's end in seconds: "1772364600\n", or "NONE" if there is no limit. Returns
/// nothing for any other answer, such as "N/A" or "INVALID".
[[nodiscard]] std::optional<double> parse_job_end(std::string_view text);

/// Asks squeue for the end of the job this process is in (SLURM_JOB_ID); all ranks wait for that. Nothing: no
/// job, no squeue, no answer.
[[nodiscard]] std::optional<double> ask_job_end(double patience_s = 5);

/// SLURM_JOB_END_TIME (Slurm 23.02 and later, and our batch scripts), else ask_job_end(). One that is past is
/// asked about, and ignored with a warning when Slurm says the same: this job is running.
[[nodiscard]] std::optional<double> job_end(double now_s);

/// A number of seconds in an environment variable; nothing: not set, or not a number from 0 on.
[[nodiscard]] std::optional<double> seconds_in_environment(const char* name);

}  // namespace echelon
