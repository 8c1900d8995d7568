#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

/// What the batch script notes about a job in <run.dir>/logs/starts-JOB.txt: a line `start STEP SECONDS` when
/// a start begins, `end CODE SECONDS` when all its ranks have exited, and `held SECONDS` when the script
/// gives up. Times are seconds since 1970. A start that was killed together with its script has no end.
namespace echelon {

/// The noted end of the start that ran at `running_s`. Empty if no end is noted, or if the noted end is
/// before `running_s`. After a torn or unknown line, everything is ignored until the next `start` line.
[[nodiscard]] std::optional<double> noted_end(std::string_view notes, double running_s);

/// The same from the file of `job` (SLURM_JOB_ID, or ARRAYJOB_TASK for an array). Empty if the file is
/// missing or cannot be read.
[[nodiscard]] std::optional<double> noted_end(const std::filesystem::path& run_dir, const std::string& job,
                                              double running_s);

}  // namespace echelon
