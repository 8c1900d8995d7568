#pragma once
#include <cstdint>

namespace echelon {

/// Recipe section `cluster`.
struct ClusterOptions {
  /// Longest wait for other ranks in one start-up exchange or one collective, seconds.
  std::int64_t timeout_s = 300;
  double heartbeat_interval_s = 1;
  /// A rank without a sign for so long is lost; 0: no heartbeats.
  double heartbeat_timeout_s = 30;
  double straggler_factor = 2;  ///< warn of a rank that works so many times the median a step; 0: never
};

}  // namespace echelon
