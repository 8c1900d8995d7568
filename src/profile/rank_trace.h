#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "comm/span_log.h"
#include "profile/clocks.h"
#include "profile/kernels.h"

namespace echelon::profile {

/// One rank of a profile.
struct RankContext {
  int rank = 0;
  std::string host;
  ClockOffset clock;
  double zero_s = 0;              ///< where the profile begins, by rank 0's clock
  std::int64_t steps = 0;         ///< that were recorded
  double engine_comm_wait_s = 0;  ///< by the engine's own account, in all of them
  std::uint64_t dropped_spans = 0;

  /// Microseconds since then.
  [[nodiscard]] double micro(double here_s) const { return (here_s - clock.offset_s - zero_s) * 1e6; }
};

/// The rank's events of trace.json. `spans`: sorted (spans.h). `kernels`: at most kMostSpans are taken.
[[nodiscard]] std::string trace_of(const RankContext& context, const std::vector<Span>& spans,
                                   const std::vector<Kernel>& kernels);

/// The rank's entry in lanes.json, of at most `bytes` as text: neighboring spans are joined until it fits.
/// With kernels, computing and collectives are theirs, not the host's.
[[nodiscard]] nlohmann::json lanes_of(const RankContext& context, const std::vector<Span>& spans,
                                      const std::vector<Kernel>& kernels, std::size_t bytes);

}  // namespace echelon::profile
