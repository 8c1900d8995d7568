#pragma once
#include <cstdint>

namespace echelon {

/// Recipe section `cluster`.
struct ClusterOptions {
  /// Longest wait for other ranks in one start-up exchange or one collective, seconds.
  std::int64_t timeout_s = 300;
};

}  // namespace echelon
