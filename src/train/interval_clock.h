#pragma once
#include <cstdint>

namespace echelon {

/// Means over the steps since the last logged one. Reads no clock; the caller supplies the times.
class IntervalClock {
 public:
  /// Values that only increase during a run. An interval is the difference of two readings.
  struct Reading {
    double now_s = 0;
    double comm_waited_s = 0;  ///< for collectives
    double data_waited_s = 0;  ///< for data
  };
  /// Means per step of the interval.
  struct Means {
    double step_s = 0;
    double comm_wait_s = 0;
    double data_wait_s = 0;
    double tokens = 0;  ///< of all ranks
  };

  void begin(const Reading& reading) { *this = IntervalClock(reading); }
  /// Records the end of a step that read `tokens`, over all ranks.
  void step_ended(double tokens) {
    ++steps_;
    tokens_ += tokens;
  }
  /// Excludes `seconds` without training from the step times.
  void pause(double seconds) { began_.now_s += seconds; }

  [[nodiscard]] double step_s(double now_s) const { return (now_s - began_.now_s) / steps(); }
  /// Requires at least one step.
  [[nodiscard]] Means means(const Reading& reading) const {
    return {.step_s = step_s(reading.now_s),
            .comm_wait_s = (reading.comm_waited_s - began_.comm_waited_s) / steps(),
            .data_wait_s = (reading.data_waited_s - began_.data_waited_s) / steps(),
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
