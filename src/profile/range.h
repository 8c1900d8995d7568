#pragma once
#include "profile/options.h"

namespace echelon::profile {

/// Throws Error(kUsage) for a profile of GPU ranks.
void require_cpu_ranks(const ProfileRange& wanted, bool on_gpu);

/// The part of `wanted` that lies ahead of a run that has done step `done` and ends with step `last`; none,
/// with a warning if `lead`, where all of it is done. Throws Error(kUsage) if the run ends before it.
[[nodiscard]] ProfileRange ahead(const ProfileRange& wanted, std::int64_t done, std::int64_t last, bool lead);

}  // namespace echelon::profile
