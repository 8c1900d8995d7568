#pragma once
#include <chrono>

/// Time for durations and deadlines, of the clock that nobody sets.
namespace echelon {

/// Seconds from some moment in the past, the same for all of this process.
[[nodiscard]] inline double steady_now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[nodiscard]] inline double seconds_since(std::chrono::steady_clock::time_point moment) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - moment).count();
}

}  // namespace echelon
