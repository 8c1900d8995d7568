#pragma once
#include <cstdint>
#include <string>

#include "run/metrics.h"

namespace echelon {

/// Shows the progress of a run to a person; rank 0 only. On a terminal it is the status line, otherwise
/// nothing between the plain lines of line().
class Progress {
 public:
  enum class Style { kNone, kLines, kBar };
  /// kBar when status_line::is_live(); kNone when it is off.
  [[nodiscard]] static Style detect();

  Progress(Style style, std::int64_t first_step, std::int64_t steps);
  ~Progress();
  void step(std::int64_t step, double loss, double step_time_s);
  /// A logged step: kept on screen.
  void line(const StepMetrics& metrics);
  /// "saving step 40", "validating"; shown in the bar until the next step.
  void state(const std::string& text);

 private:
  Style style_;
  std::int64_t steps_;
  std::string bar_;
};

/// "step 120/300  loss 5.1234  lr 1.9e-03  grad 0.81  12,345 tok/s  0.66 s/step  rss 1.2 GiB": the plain
/// line.
[[nodiscard]] std::string describe(const StepMetrics& metrics, std::int64_t steps);

}  // namespace echelon
