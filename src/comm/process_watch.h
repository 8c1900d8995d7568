#pragma once
#include <map>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "comm/activity.h"
#include "comm/peer_failure.h"

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

/// The link between the communicators of a process and LifeWatch (liveness). The communicators write
/// `activity` and `awaited`; LifeWatch writes `failure`. No pointer is null.
struct ProcessWatch {
  std::shared_ptr<Activity> activity = std::make_shared<Activity>();
  std::shared_ptr<Awaited> awaited = std::make_shared<Awaited>();
  std::shared_ptr<PeerFailure> failure = std::make_shared<PeerFailure>();
};

}  // namespace echelon
