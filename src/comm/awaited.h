#pragma once
#include <map>
#include <mutex>
#include <utility>

namespace echelon {

/// The peers that this rank waits for. The time of each collective of CPU ranks counts for the peer whose
/// message arrived last; among equally fast peers it is now one, now another. Thread-safe.
class Awaited {
 public:
  void add(int world_rank, double seconds) {
    const std::lock_guard lock(mutex_);
    seconds_[world_rank] += seconds;
  }
  /// Seconds by world rank since the last call.
  [[nodiscard]] std::map<int, double> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(seconds_, {});
  }

 private:
  std::mutex mutex_;
  std::map<int, double> seconds_;
};

}  // namespace echelon
