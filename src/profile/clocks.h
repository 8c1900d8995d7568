#pragma once
#include <vector>

#include "comm/communicator.h"

namespace echelon::profile {

/// The time by which another process's clock is ahead of rank 0's.
struct ClockOffset {
  double offset_s = 0;
  double uncertainty_s = 0;  ///< the truth is at most this far away
};

/// The times at which a rank issued some exchanges of all ranks, and at which it had their results, by its
/// own clock.
struct ExchangeTimes {
  std::vector<double> issued_s;
  std::vector<double> done_s;
};

/// No rank has the result of an exchange before the other has issued it, which bounds the offset from both
/// sides; the exchange with the least time between bounds it best (Cristian, 1989).
[[nodiscard]] ClockOffset offset_of(const ExchangeTimes& rank_0, const ExchangeTimes& other);

/// Returns the offsets by rank; rank 0's is zero. Collective.
[[nodiscard]] std::vector<ClockOffset> measure_clocks(Communicator& comm);

}  // namespace echelon::profile
