#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What the batch script notes about a job in <run.dir>/logs/starts-JOB.txt: a line `start STEP SECONDS` when
/// a start begins, or `restart STEP SECONDS` when it begins in place; `lost STEP RANK NODE SECONDS` when the
/// script learns that ranks were lost ("-" for what is not known); `end CODE SECONDS` when all its ranks have
/// exited, and `held SECONDS` when the script gives up. Times are seconds since 1970. A start that was killed
/// together with its script has no end.
namespace echelon {

/// One line of the notes.
struct StartNote {
  enum class Kind { kStart, kLost, kEnd, kHeld, kOther } kind = Kind::kOther;  ///< kOther: torn or unknown
  std::int64_t value = 0;  ///< of a start: the committed step; of an end: the exit code
  double time_s = 0;
};
/// Every whole line, in order.
[[nodiscard]] std::vector<StartNote> start_notes(std::string_view text);

/// How a start ended, as noted.
struct NotedEnd {
  double gone_s = 0;             ///< when all its ranks had exited
  std::optional<double> lost_s;  ///< when the script learned of a loss
};

/// The noted end of the start that ran at `running_s`. Empty if no end is noted, or if the noted end is
/// before `running_s`. After a torn or unknown line, everything is ignored until the next begin of a start.
[[nodiscard]] std::optional<NotedEnd> noted_end(std::string_view notes, double running_s);

/// The same from the file of `job` (SLURM_JOB_ID, or ARRAYJOB_TASK for an array). Empty if the file is
/// missing or cannot be read.
[[nodiscard]] std::optional<NotedEnd> noted_end(const std::filesystem::path& run_dir, const std::string& job,
                                                double running_s);

}  // namespace echelon
