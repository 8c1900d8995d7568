#pragma once
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "comm/span_log.h"
#include "profile/rank_trace.h"

namespace echelon::profile {

/// A rank's numbers for the summary. Seconds are sums over all its steps. They count moments in which the
/// operation was the innermost; spans nested in it count for themselves. `spans`: sorted. `kernels`:
/// by their beginning.
[[nodiscard]] nlohmann::json report_of(const RankContext& context, const std::vector<Span>& spans,
                                       const std::vector<Kernel>& kernels);

}  // namespace echelon::profile
