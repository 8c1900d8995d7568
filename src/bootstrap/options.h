#pragma once
#include <cstdint>
#include <string>

#include "base/options/choice.h"

namespace echelon {

/// What a run does after it lost nodes that no others can replace.
enum class Shrink : std::uint8_t {
  kNever,  ///< waits for as many
  kAllow,  ///< goes on with fewer copies of the state
};
template <>
inline constexpr std::array<std::string_view, 2> kWords<Shrink>{"never", "allow"};

/// Recipe section `cluster`.
struct ClusterOptions {
  /// Longest wait for other ranks in one start-up exchange or one collective, seconds.
  std::int64_t timeout_s = 300;
  double heartbeat_interval_s = 1;
  /// A rank without a sign for so long is lost; 0: no heartbeats.
  double heartbeat_timeout_s = 30;
  double straggler_factor = 2;  ///< warn of a rank that works so many times the median a step; 0: never
  /// End of the capacity block that the nodes belong to, "2026-03-01T11:30:00Z"; empty: none.
  std::string capacity_block_end;
  Shrink shrink = Shrink::kNever;
  double stop_margin_s = 10;  ///< to spare between the end of the last save and that of the job
};

}  // namespace echelon
