#pragma once
#include <map>
#include <utility>

#include "base/mutex.h"

namespace echelon {

/// The peers that this rank waits for. The time of each collective of CPU ranks counts for the peer whose
/// message arrived last; among equally fast peers it is now one, now another. Thread-safe.
class Awaited {
 public:
  void add(int world_rank, double seconds) {
    const Lock lock(mutex_);
    seconds_[world_rank] += seconds;
  }
  /// Seconds by world rank since the last call.
  [[nodiscard]] std::map<int, double> take() {
    const Lock lock(mutex_);
    return std::exchange(seconds_, {});
  }

 private:
  Mutex mutex_;
  std::map<int, double> seconds_ ECHELON_GUARDED_BY(mutex_);
};

}  // namespace echelon
