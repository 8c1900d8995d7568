#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What `echelon supervise` notes about a job in <run.dir>/logs/starts-JOB.txt: a line `start STEP SECONDS`
/// when a start begins, or `restart STEP SECONDS` when it begins in place; `lost STEP RANK NODE SECONDS` when
/// it learns that ranks were lost ("-" for what is not known); `end CODE SECONDS` when all its ranks have
/// exited, `left-out NODE SECONDS` when the job is requeued without a suspect, and `held SECONDS` when it is
/// held. Times are seconds since 1970. A start that was killed together with its supervisor has no end. Lines
/// are appended, so that a full disk or a power failure costs the last one at most.
namespace echelon {

/// One line of the notes.
struct StartNote {
  /// kOther: torn or unknown.
  enum class Kind { kStart, kLost, kEnd, kLeftOut, kHeld, kOther } kind = Kind::kOther;
  bool in_place = false;  ///< of a start: it is a restart
  /// A start has the committed step, a restart possibly a later one, in memory, from which starts before it
  /// went on. A loss has the step under way; 0: unknown.
  std::int64_t step = 0;
  std::int64_t code = 0;   ///< of an end: the exit code
  std::int64_t rank = -1;  ///< of a loss; -1: unknown
  std::string node;        ///< that was lost or is left out; empty: unknown
  double time_s = 0;
};
/// Every whole line, in order.
[[nodiscard]] std::vector<StartNote> start_notes(std::string_view text);
/// The line of a note, with its line end.
[[nodiscard]] std::string to_line(const StartNote& note);

/// The Slurm job of this process as people and its notes name it: "17", or "17_3" for task 3 of an array.
/// Empty outside of a job.
[[nodiscard]] std::string this_job();

/// The file of `job`, as this_job() names it.
[[nodiscard]] std::filesystem::path start_notes_file(const std::filesystem::path& run_dir,
                                                     const std::string& job);

/// How a start ended, as noted.
struct NotedEnd {
  double gone_s = 0;             ///< when all its ranks had exited
  std::optional<double> lost_s;  ///< when the script learned of a loss
};

/// The noted end of the start that ran at `running_s`. Empty if no end is noted, or if the noted end is
/// before `running_s`. After a torn or unknown line, everything is ignored until the next begin of a start.
[[nodiscard]] std::optional<NotedEnd> noted_end(std::string_view notes, double running_s);

/// Reads the notes from the file of `job`. Empty if the file is missing or cannot be read.
[[nodiscard]] std::optional<NotedEnd> noted_end(const std::filesystem::path& run_dir, const std::string& job,
                                                double running_s);

}  // namespace echelon
