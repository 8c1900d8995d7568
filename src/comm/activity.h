#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/not_copied.h"
#include "base/steady_time.h"
#include "comm/operation.h"
#include "comm/span_log.h"

namespace echelon {

/// The phase a rank is in. Plain bytes: it travels in heartbeats.
enum class Doing : std::uint8_t {
  kStarting,
  kReadingData,
  kForward,
  kBackward,
  kUpdating,
  kValidating,
  kGenerating,
  kEvaluating,
  kSaving,
  kLeaving,
};

/// What this process is doing at the moment, written by the thread that trains and by its communicators, read
/// by the thread that sends heartbeats. Thread-safe; a call costs some tens of nanoseconds.
class Activity {
 public:
  /// A moment's state. Plain bytes: it travels in heartbeats.
  struct Now {
    std::int64_t step = 0;     ///< under way, or the last one
    std::int64_t steps = 0;    ///< ended in this process
    double work_s = 0;         ///< of all of them: time not spent waiting for other ranks
    double for_s = 0;          ///< since when it does `doing`
    std::uint64_t issued = 0;  ///< collectives of all groups
    std::uint64_t done = 0;    ///< of them; less than issued: some are under way
    double under_way_s = 0;    ///< age of the oldest one under way
    Operation newest;          ///< the last one issued; meaningless while `issued` is 0
    char unit[56] = {};        ///< that computes; zero-terminated
    Doing doing = Doing::kStarting;
  };

  void begin_step(std::int64_t step);
  /// `work_s`: the step's time less what was spent waiting for other ranks.
  void end_step(double work_s);
  void enter(Doing doing, std::string_view unit = {});

  /// Called by communicators when an operation is issued, and when it is done.
  void issued(const Operation& operation);
  void done();

  [[nodiscard]] Now now() const;

  /// From now on, measured spans of time are added to `log`; null: they are no longer recorded. This object
  /// keeps every log as long as it lives, because threads may still add to it.
  void record(std::shared_ptr<SpanLog> log);
  /// Null: no profile is being recorded.
  [[nodiscard]] SpanLog* spans() const { return spans_.load(std::memory_order_acquire); }

 private:
  using Clock = std::chrono::steady_clock;
  mutable Mutex mutex_;
  Now now_ ECHELON_GUARDED_BY(mutex_);
  Clock::time_point entered_ ECHELON_GUARDED_BY(mutex_) = Clock::now();
  Clock::time_point under_way_since_ ECHELON_GUARDED_BY(mutex_){};  ///< of the oldest operation under way
  std::vector<std::shared_ptr<SpanLog>> logs_ ECHELON_GUARDED_BY(mutex_);
  std::atomic<SpanLog*> spans_{nullptr};
};

/// Records its lifetime, if a profile is being recorded when it ends. `label` outlives it.
class RecordedSpan : NotCopied {
 public:
  RecordedSpan(const Activity& activity, SpanKind kind, std::string_view label)
      : activity_(activity), kind_(kind), label_(label), began_s_(steady_now_s()) {}
  ~RecordedSpan() {
    if (SpanLog* log = activity_.spans()) log->add(kind_, label_, began_s_, steady_now_s());
  }

 private:
  const Activity& activity_;
  SpanKind kind_;
  std::string_view label_;
  double began_s_;
};

/// "in step 41, backward of unit 'layers.3' for 0.2 s, after collective #812 all-gather 'layers.2' ... (not
/// done for 0.1 s)".
[[nodiscard]] std::string describe(const Activity::Now& now);

}  // namespace echelon
