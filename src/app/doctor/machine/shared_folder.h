#pragma once
#include <filesystem>
#include <vector>

#include "app/doctor/finding.h"
#include "bootstrap/job.h"

namespace echelon::app::doctor {

/// Every node's first rank writes files of `bytes` in a folder of its own below `folder`, syncs them, and
/// looks for what the others wrote; rank 0 holds a lock that others must not get. Collective; every rank gets
/// the findings shared_folder, shared_write and shared_locks (the last two only where they could be made).
/// `slow`: as of judge_rates().
[[nodiscard]] std::vector<Finding> examine_shared_folder(Job& job, const std::filesystem::path& folder,
                                                         std::uint64_t bytes, double slow);

}  // namespace echelon::app::doctor
