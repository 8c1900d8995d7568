#pragma once
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>

namespace echelon {

/// Durations in seconds; nothing: unknown.
struct Durations {
  std::optional<double> step;
  std::optional<double> save;  ///< until it is durable
  std::optional<double> validation;
};

/// Decides when training must stop so that its last save is durable before the job ends. Only rank 0 knows
/// that end, and its vote stops the others. Used by one thread. All points in time are seconds since 1970.
class Deadline {
 public:
  struct Setting {
    std::optional<double> job_end_s;       ///< nothing or infinity: none is known
    std::optional<double> capacity_end_s;  ///< of the capacity block: AWS takes the nodes back before it
    std::optional<double> grace_s;         ///< between SIGTERM and SIGKILL
    double margin_s = 10;
    Durations earlier;           ///< of earlier starts of this run on as many ranks
    double assumed_save_s = 10;  ///< for as long as no save has been seen
    std::function<double()> now_s;
    std::function<std::optional<double>()> ask_job_end;  ///< again, in case it was extended; may be empty
  };
  explicit Deadline(Setting setting) : setting_(std::move(setting)) {}

  void step_took(double seconds) { note(steps_, seconds); }
  void save_took(double seconds) { note(saves_, seconds); }
  void validation_took(double seconds) { note(validations_, seconds); }
  /// Returns forecasts. For steps it is the longest recent one, but at most three times the median, because
  /// one outlier is no forecast.
  [[nodiscard]] Durations expected() const;
  /// The expected duration of a save, or the assumed one.
  [[nodiscard]] double save_s() const;

  /// Work that comes before training can stop the next time.
  struct Ahead {
    bool step = false;
    bool validation = false;
    double before_s = 0;  ///< a save that training waits for
    /// The rest of a save that is written while training goes on; the last save waits for it.
    double beside_s = 0;
  };
  /// Returns why training must stop now, for the log; empty: `ahead`, one more save and the margin fit.
  /// Queries the job's end again before it returns a reason.
  [[nodiscard]] std::string reason_to_stop(const Ahead& ahead);

  /// Throws Error(kUsage) if, judging by earlier starts, not even one step and a save fit, or if the capacity
  /// block is over: the next start would have the same problem.
  void require_room();

  /// "the job ends at 12:34:56 UTC, in 95 s"; empty: no end is known.
  [[nodiscard]] std::string describe() const;
  /// Returns a warning if the grace after SIGTERM is known to be shorter than a save; else an empty text.
  [[nodiscard]] std::string grace_warning() const;

  static constexpr double kTakenBack_s = 1800;  ///< before the end of a capacity block

 private:
  using Times = std::deque<double>;
  static void note(Times& times, double seconds);
  [[nodiscard]] std::optional<double> end_s() const;
  [[nodiscard]] double left_s() const;  ///< infinity: no end is known
  /// The job's end may have been moved: true when `needed_s` fit after all.
  [[nodiscard]] bool fits_after_all(double needed_s);

  Setting setting_;
  Times steps_;
  Times saves_;
  Times validations_;
};

/// "0.25 s", "3.1 s" or "60 s".
[[nodiscard]] std::string describe_seconds(double seconds);

}  // namespace echelon
