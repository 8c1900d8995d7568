#pragma once
#include <chrono>

namespace echelon {

/// Seconds of a clock that never jumps, since a moment of its own choice: for the length of things, and for
/// deadlines.
[[nodiscard]] inline double steady_now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace echelon
