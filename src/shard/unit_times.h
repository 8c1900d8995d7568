#pragma once
#include <chrono>
#include <cstdint>

namespace echelon {

/// Time spent around the layers' computations, since construction.
struct UnitTimes {
  double host_s = 0;        ///< by the calling thread: casts, bookkeeping, issuing
  double waiting_s = 0;     ///< blocked on collectives: the calling thread, or on a GPU its stream
  std::int64_t passes = 0;  ///< forward or backward passes of a unit
};

/// Adds its lifetime to `waiting_s`.
class WaitingTime {
 public:
  explicit WaitingTime(UnitTimes& times) : times_(times) {}
  ~WaitingTime() { times_.waiting_s += std::chrono::duration<double>(Clock::now() - began_).count(); }
  WaitingTime(const WaitingTime&) = delete;
  WaitingTime& operator=(const WaitingTime&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  UnitTimes& times_;
  Clock::time_point began_ = Clock::now();
};

/// Adds its lifetime to `host_s`, minus what was added to `waiting_s` meanwhile.
class HostTime {
 public:
  explicit HostTime(UnitTimes& times) : times_(times), waited_(times.waiting_s) {}
  ~HostTime() {
    const double elapsed = std::chrono::duration<double>(Clock::now() - began_).count();
    times_.host_s += elapsed - (times_.waiting_s - waited_);
  }
  HostTime(const HostTime&) = delete;
  HostTime& operator=(const HostTime&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  UnitTimes& times_;
  double waited_;
  Clock::time_point began_ = Clock::now();
};

}  // namespace echelon
