#pragma once
#include <cstdint>

#include "run/metrics.h"

namespace echelon {

/// Means over the steps since the last logged one. Reads no clock; the caller supplies the times.
class IntervalClock {
 public:
  /// Values that only increase during a run. An interval is the difference of two readings.
  struct Reading {
    double now_s = 0;
    StepParts spent;
  };
  /// Means per step of the interval.
  struct Means {
    double step_s = 0;
    StepParts spent;
    double tokens = 0;  ///< of all ranks
  };

  void begin(const Reading& reading) { *this = IntervalClock(reading); }
  /// Records the end of a step that read `tokens`, over all ranks.
  void step_ended(double tokens) {
    ++steps_;
    tokens_ += tokens;
  }
  /// Excludes the time between two readings, in which nothing was trained.
  void pause(const Reading& from, const Reading& to) {
    began_.now_s += to.now_s - from.now_s;
    began_.spent = began_.spent.plus(to.spent, 1).plus(from.spent, -1);
  }

  [[nodiscard]] double step_s(double now_s) const { return (now_s - began_.now_s) / steps(); }
  /// Requires at least one step.
  [[nodiscard]] Means means(const Reading& reading) const {
    Means means{.step_s = step_s(reading.now_s),
                .spent = StepParts{}.plus(reading.spent.plus(began_.spent, -1), 1 / steps()),
                .tokens = tokens_ / steps()};
    StepParts& spent = means.spent;
    spent.other_s =
        means.step_s - spent.compute_s - spent.comm_wait_s() - spent.data_wait_s - spent.optimizer_s;
    return means;
  }

  IntervalClock() = default;

 private:
  explicit IntervalClock(const Reading& began) : began_(began) {}
  [[nodiscard]] double steps() const { return static_cast<double>(steps_); }

  Reading began_;
  std::int64_t steps_ = 0;
  double tokens_ = 0;
};

}  // namespace echelon
