#pragma once
#include <cstdint>
#include <filesystem>

/// How far a run has come, as its folder shows. What cannot be read counts as not there.
namespace echelon::supervise {

/// Step of the checkpoint that was committed last; 0: there is none. Not the highest step: a damaged
/// checkpoint, before which the run goes on, must not hide those that follow.
[[nodiscard]] std::int64_t committed_step(const std::filesystem::path& run_dir);

}  // namespace echelon::supervise
