#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

/// How far a run has come, as its folder shows. What cannot be read counts as not there.
namespace echelon::supervise {

/// Step of the checkpoint that was committed last; 0: there is none. Not the highest step: a damaged
/// checkpoint, before which the run goes on, must not hide those that follow.
[[nodiscard]] std::int64_t committed_step(const std::filesystem::path& run_dir);

/// The highest step that ranks went on from, on disk or in memory, since this start of `job` (this_job()),
/// its `requeues`th; 0: unknown.
[[nodiscard]] std::int64_t resumed_step(const std::filesystem::path& run_dir, const std::string& job,
                                        std::int64_t requeues);

/// Changes whenever rank 0 of a start opens the run folder; empty: nobody ever has. Nothing: unknown.
[[nodiscard]] std::optional<std::string> last_opening(const std::filesystem::path& run_dir);

}  // namespace echelon::supervise
