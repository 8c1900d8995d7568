#pragma once
#include <cstdint>

#include "shard/options.h"

namespace echelon {

/// Dynamic loss scaling (Micikevicius et al., Mixed Precision Training): multiplies fp16 gradients by a
/// factor that halves after an overflow and doubles after `loss_scale_growth_steps` finite steps in a row.
/// Its inputs are agreed between ranks, so it is the same on every rank. Without fp16 the factor is always 1.
class LossScale {
 public:
  LossScale() = default;
  LossScale(const PrecisionOptions& options, bool used)
      : used_(used),
        factor_(used ? options.loss_scale : 1.0),
        growth_steps_(options.loss_scale_growth_steps) {}

  [[nodiscard]] bool used() const { return used_; }
  [[nodiscard]] double factor() const { return factor_; }
  /// True if a smaller factor may still avoid an overflow.
  [[nodiscard]] bool can_shrink() const { return used_ && factor_ > kSmallest; }

  /// Call after each step. `finite`: loss and gradients were finite.
  void update(bool finite) {
    if (!used_) return;
    if (!finite) {
      factor_ = factor_ > kSmallest ? factor_ / 2 : factor_;
      finite_in_a_row_ = 0;
    } else if (++finite_in_a_row_ >= growth_steps_) {
      factor_ = factor_ < kLargest ? factor_ * 2 : factor_;
      finite_in_a_row_ = 0;
    }
  }

  /// State for checkpoints, and its restoration.
  [[nodiscard]] std::int64_t finite_in_a_row() const { return finite_in_a_row_; }
  void restore(double factor, std::int64_t finite_in_a_row) {
    if (!used_) return;
    factor_ = factor;
    finite_in_a_row_ = finite_in_a_row;
  }

 private:
  static constexpr double kSmallest = 1.0 / 65536;
  static constexpr double kLargest = 16777216.0;
  bool used_ = false;
  double factor_ = 1.0;
  std::int64_t growth_steps_ = 2000;
  std::int64_t finite_in_a_row_ = 0;
};

}  // namespace echelon
