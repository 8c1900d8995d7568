#pragma once
#include <cstdint>

namespace echelon {

/// The time of the steps between two logged ones. Pure: the caller reads the clock.
class IntervalClock {
 public:
  /// What only grows while a run goes on; an interval is the difference of two.
  struct Reading {
    double now_s = 0;
    double comm_waited_s = 0;  ///< for collectives
    double data_waited_s = 0;  ///< for data
  };
  /// Means of a step of the interval.
  struct Means {
    double step_s = 0;
    double comm_wait_s = 0;
    double data_wait_s = 0;
    double tokens = 0;  ///< of all ranks
  };

  void begin(const Reading& reading) { *this = IntervalClock(reading); }
  /// A step has ended that read `tokens`.
  void step_ended(double tokens) {
    ++steps_;
    tokens_ += tokens;
  }
  /// For `seconds` there was no training: they belong to no step.
  void pause(double seconds) { began_.now_s += seconds; }

  [[nodiscard]] double step_s(double now_s) const { return (now_s - began_.now_s) / steps(); }
  /// After at least one step.
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
