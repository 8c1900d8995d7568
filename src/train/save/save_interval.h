#pragma once
#include <cstdint>
#include <optional>

#include "checkpoint/options.h"

namespace echelon {

/// Returns the first multiple of `every` after `step`.
[[nodiscard]] std::int64_t next_due(std::int64_t every, std::int64_t step);

/// Returns whether training may go on during a save after `step`, so that it needs a copy of the state. The
/// save of `last_step` is waited for.
[[nodiscard]] bool saves_beside_training(const CheckpointOptions& options, std::int64_t step,
                                         std::int64_t last_step);

/// Decides by the clock when the next save is due. Used on rank 0, which tells the others.
///
/// The automatic interval is sqrt(2 x cost x mean time to failure) (J. W. Young, "A first order approximation
/// to the optimum checkpoint interval", 1974), where the cost is the time for which training stands still. It
/// is never below the time that a save takes to become durable (lower bound of J. T. Daly, 2006).
class SaveInterval {
 public:
  explicit SaveInterval(const CheckpointOptions& options);

  /// Current seconds between saves; nothing if saves are not due by time.
  [[nodiscard]] std::optional<double> seconds() const;
  [[nodiscard]] bool due(double now_s) const;

  /// A save begins, or is attempted: the next one is due an interval later.
  void begin(double now_s) { last_s_ = now_s; }
  /// Records a save that began at `began_s`, blocked training for `stall_s` and was durable after `total_s`.
  void saved(double began_s, double stall_s, double total_s);

 private:
  CheckpointOptions options_;
  double last_s_ = 0;
  std::optional<double> stall_s_;  ///< of the newest save
  double total_s_ = 0;
};

}  // namespace echelon
