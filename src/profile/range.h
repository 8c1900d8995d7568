#pragma once
#include "profile/options.h"

namespace echelon::profile {

/// Throws Error(kUsage) for a profile of GPU ranks.
void require_cpu_ranks(const ProfileRange& wanted, bool on_gpu);

/// Returns the part of `wanted` after step `done`, the last one that the run has done; the run ends with step
/// `last`. Returns none, with a warning if `lead`, if all of it is done. Throws Error(kUsage) if the run ends
/// before it.
[[nodiscard]] ProfileRange ahead(const ProfileRange& wanted, std::int64_t done, std::int64_t last, bool lead);

}  // namespace echelon::profile
