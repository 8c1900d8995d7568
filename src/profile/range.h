#pragma once
#include "profile/options.h"

namespace echelon::profile {

/// Returns the part of `wanted` after step `done`, the last one that the run has done; the run ends with step
/// `last`. Returns none, with a warning if `lead`, if all of it is done. Throws Error(kUsage) if the run ends
/// before it.
[[nodiscard]] ProfileRange ahead(const ProfileRange& wanted, std::int64_t done, std::int64_t last, bool lead);

}  // namespace echelon::profile
