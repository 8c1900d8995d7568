#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

/// What the batch script notes about a job: <run.dir>/logs/starts-JOB.txt, one line `start STEP SECONDS` when
/// a start begins and `end CODE SECONDS` when its ranks are gone (seconds since 1970); `held SECONDS` where
/// it gave up. A start that was killed together with its script has no end.
namespace echelon {

/// The noted end of the start that ran at `running_s`. Nothing: none is noted, or one before `running_s`. A
/// line that is torn or unknown ends no start, and neither does what follows it until the next begins.
[[nodiscard]] std::optional<double> noted_end(std::string_view notes, double running_s);

/// The same from the file of `job` (SLURM_JOB_ID, of an array ARRAYJOB_TASK). A file that is missing, or that
/// cannot be read, notes nothing.
[[nodiscard]] std::optional<double> noted_end(const std::filesystem::path& run_dir, const std::string& job,
                                              double running_s);

}  // namespace echelon
