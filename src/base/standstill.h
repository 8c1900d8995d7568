#pragma once
#include <utility>

#include "base/steady_time.h"

namespace echelon {

/// Tells the loop of a thread for how long it did not run, because its process was stopped (a suspended job,
/// a virtual machine that moves). Silence of others in that time proves nothing.
class Standstill {
 public:
  /// Returns the seconds that were lost since the last call; 0: none. Call it once a round, before anything
  /// is judged by the time: a stopped process is mostly in poll().
  [[nodiscard]] double lost_s(double now_s) {
    constexpr double kLong_s = 1;  // a round normally takes little more than 0.05 s
    const double took_s = now_s - std::exchange(last_s_, now_s);
    return took_s > kLong_s ? took_s : 0;
  }

 private:
  double last_s_ = steady_now_s();
};

}  // namespace echelon
