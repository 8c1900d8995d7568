#pragma once
#include <condition_variable>
#include <thread>

#include "base/mutex.h"
#include "base/not_copied.h"
#include "base/standstill.h"

namespace echelon {

/// Time for deadlines of work that may hang: the clock of steady_now_s(), less the time for which this
/// process was stopped since the object was made. A thread of its own notices that. Thread-safe.
class AwakeClock : NotCopied {
 public:
  AwakeClock();
  ~AwakeClock();
  [[nodiscard]] double now_s() const;

 private:
  void watch() const;

  mutable Mutex mutex_;
  mutable std::condition_variable ended_;
  mutable Standstill standstill_ ECHELON_GUARDED_BY(mutex_);
  mutable double lost_s_ ECHELON_GUARDED_BY(mutex_) = 0;
  bool over_ ECHELON_GUARDED_BY(mutex_) = false;
  std::thread watch_;
};

}  // namespace echelon
