#pragma once
#include <optional>

#include "checkpoint/options.h"

namespace echelon {

/// Tells by the clock when the next save is due. Used by one rank, which tells the others.
///
/// The automatic interval is that of J. W. Young, "A first order approximation to the optimum checkpoint
/// interval" (1974), with J. T. Daly's lower bound (2006): sqrt(2 x cost x mean time to failure), where the
/// cost is the time training stands still, and never below the time a save takes to become durable.
class SaveInterval {
 public:
  explicit SaveInterval(const CheckpointOptions& options);

  /// Seconds between saves now; nothing when saves are not due by time.
  [[nodiscard]] std::optional<double> seconds() const;
  [[nodiscard]] bool due(double now_s) const;

  void begin(double now_s) { last_s_ = now_s; }
  /// A save that began at `began_s` let training wait `stall_s` and was durable after `total_s`.
  void saved(double began_s, double stall_s, double total_s);

 private:
  CheckpointOptions options_;
  double last_s_ = 0;
  std::optional<double> stall_s_;  ///< of the newest save
  double total_s_ = 0;
};

}  // namespace echelon
