#pragma once
#include <cstdint>

namespace echelon {

/// Seconds of steps by what a rank did in them.
struct StepTimes {
  double compute_s = 0;      ///< forward and backward, waits not included
  double gather_wait_s = 0;  ///< waiting for weights that nothing hides
  double reduce_wait_s = 0;  ///< waiting for gradients, and for the other ranks at the end of a step
  double data_wait_s = 0;    ///< waiting for samples
  double optimizer_s = 0;    ///< norm and update, waits not included

  [[nodiscard]] double comm_wait_s() const { return gather_wait_s + reduce_wait_s; }
  [[nodiscard]] double sum() const {
    return compute_s + gather_wait_s + reduce_wait_s + data_wait_s + optimizer_s;
  }
  friend StepTimes operator-(const StepTimes& a, const StepTimes& b) {
    return {a.compute_s - b.compute_s, a.gather_wait_s - b.gather_wait_s, a.reduce_wait_s - b.reduce_wait_s,
            a.data_wait_s - b.data_wait_s, a.optimizer_s - b.optimizer_s};
  }
};

/// Means over the steps since the last logged one. Reads no clock; the caller supplies the times.
class IntervalClock {
 public:
  /// Values that only increase during a run. An interval is the difference of two readings.
  struct Reading {
    double now_s = 0;
    StepTimes spent;
  };
  /// Means per step of the interval.
  struct Means {
    double step_s = 0;
    StepTimes spent;
    double tokens = 0;  ///< of all ranks
    /// Seconds that are in none of the parts in `spent`.
    [[nodiscard]] double other_s() const { return step_s - spent.sum(); }
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
    began_.spent = began_.spent - (from.spent - to.spent);
  }

  [[nodiscard]] double step_s(double now_s) const { return (now_s - began_.now_s) / steps(); }
  /// Requires at least one step.
  [[nodiscard]] Means means(const Reading& reading) const {
    const StepTimes all = reading.spent - began_.spent;
    return {.step_s = step_s(reading.now_s),
            .spent = {all.compute_s / steps(), all.gather_wait_s / steps(), all.reduce_wait_s / steps(),
                      all.data_wait_s / steps(), all.optimizer_s / steps()},
            .tokens = tokens_ / steps()};
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
