#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "comm/span_log.h"
#include "profile/rank_trace.h"

namespace echelon::profile {

/// The totals of a rank beside its spans.
struct RankTotals {
  std::int64_t steps = 0;         ///< that were recorded
  double engine_comm_wait_s = 0;  ///< by the engine's own account, in all of them
  std::uint64_t dropped_spans = 0;
};

/// A rank's numbers for the summary. Seconds are sums over all its steps. They count moments in which the
/// operation was the innermost; spans nested in it count for themselves. `spans`: sorted. `kernels`:
/// by their beginning.
[[nodiscard]] nlohmann::json report_of(const RankContext& context, const std::vector<Span>& spans,
                                       const RankTotals& totals, const std::vector<Kernel>& kernels);

}  // namespace echelon::profile
