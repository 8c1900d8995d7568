#pragma once
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "comm/operation.h"

namespace echelon {

/// What a rank is at. Plain bytes: it travels in heartbeats.
enum class Doing : std::uint8_t {
  kStarting,
  kReadingData,
  kForward,
  kBackward,
  kUpdating,
  kValidating,
  kGenerating,
  kSaving,
  kLeaving,
};

/// What this process is doing at the moment, written by the thread that trains and by its communicators, read
/// by the thread that tells other ranks. Thread-safe; a call costs some tens of nanoseconds.
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

  /// By communicators.
  void issued(const Operation& operation);
  void done();

  [[nodiscard]] Now now() const;

 private:
  using Clock = std::chrono::steady_clock;
  mutable std::mutex mutex_;
  Now now_;
  Clock::time_point entered_ = Clock::now();
  Clock::time_point under_way_since_{};  ///< of the oldest operation under way
};

/// "in step 41, backward of unit 'layers.3' for 0.2 s, after collective #812 all-gather 'layers.2' ... (not
/// done for 0.1 s)".
[[nodiscard]] std::string describe(const Activity::Now& now);

}  // namespace echelon
