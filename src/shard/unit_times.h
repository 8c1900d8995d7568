#pragma once
#include <cstdint>
#include <string_view>

#include "base/not_copied.h"
#include "base/steady_time.h"
#include "comm/activity.h"

namespace echelon {

/// Time spent around the layers' computations, since construction.
struct UnitTimes {
  double host_s = 0;         ///< by the calling thread: casts, bookkeeping, issuing
  double gather_wait_s = 0;  ///< blocked on gathers of weights: the calling thread, or on a GPU its stream
  double reduce_wait_s = 0;  ///< the same on reductions of gradients
  std::int64_t passes = 0;   ///< forward or backward passes of a unit

  [[nodiscard]] double waiting_s() const { return gather_wait_s + reduce_wait_s; }
};

/// Adds its lifetime to one of the waits of UnitTimes, and to a profile if one is being recorded.
class WaitingTime : NotCopied {
 public:
  /// `unit`: what is waited for, for the profile; empty: nothing is.
  WaitingTime(double& wait_s, const Activity& activity, SpanKind kind, std::string_view unit)
      : wait_s_(wait_s), activity_(activity), kind_(kind), unit_(unit) {}
  ~WaitingTime() {
    const double now_s = steady_now_s();
    wait_s_ += now_s - began_s_;
    SpanLog* log = activity_.spans();
    if (log != nullptr && !unit_.empty()) log->add(kind_, unit_, began_s_, now_s);
  }

 private:
  double& wait_s_;
  const Activity& activity_;
  SpanKind kind_;
  std::string_view unit_;
  double began_s_ = steady_now_s();
};

/// Adds its lifetime to `host_s`, minus what was added to the waits meanwhile.
class HostTime : NotCopied {
 public:
  explicit HostTime(UnitTimes& times) : times_(times), waited_(times.waiting_s()) {}
  ~HostTime() { times_.host_s += steady_now_s() - began_s_ - (times_.waiting_s() - waited_); }

 private:
  UnitTimes& times_;
  double waited_;
  double began_s_ = steady_now_s();
};

}  // namespace echelon
