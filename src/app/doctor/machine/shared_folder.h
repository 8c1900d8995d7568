#pragma once
#include <filesystem>
#include <vector>

#include "app/doctor/finding.h"
#include "bootstrap/job.h"

namespace echelon::app::doctor {

/// Checks that all nodes share `folder`. The first rank of each node writes and syncs files of `bytes` bytes
/// in its own folder below it, then looks for the other nodes' files. Rank 0 holds a lock that the others
/// must fail to get.
/// Collective. Every rank gets the findings shared_folder, shared_write and shared_locks; the last two only
/// if they could be measured. `slow`: see judge_rates().
[[nodiscard]] std::vector<Finding> examine_shared_folder(Job& job, const std::filesystem::path& folder,
                                                         std::uint64_t bytes, double slow);

}  // namespace echelon::app::doctor
