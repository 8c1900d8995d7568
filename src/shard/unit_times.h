#pragma once
#include <chrono>
#include <cstdint>

namespace echelon {

/// Time in what surrounds the layers, since construction.
struct UnitTimes {
  double host_s = 0;  ///< of the calling thread: casts, book-keeping, issuing
  double waiting_s =
      0;  ///< for collectives that nothing hides, of the calling thread or on a GPU of its stream
  std::int64_t passes = 0;  ///< forward or backward passes of a unit
};

/// Counts the time until its end as waiting.
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

/// Counts the time until its end as the host's, less what was waited in between.
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
