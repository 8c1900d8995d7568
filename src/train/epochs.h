#pragma once
#include <cstdint>

#include "train/options.h"

namespace echelon {

/// Converts between epochs and optimizer steps. Samples are numbered across epochs, and steps take them in
/// that order. A step may therefore contain the end of one epoch and the start of the next, and no sample is
/// dropped.
class Epochs {
 public:
  /// Samples per epoch and samples per step, both at least 1.
  Epochs(std::int64_t samples, std::int64_t batch_size) : samples_(samples), batch_size_(batch_size) {}

  /// Steps needed to complete `count` epochs.
  [[nodiscard]] std::int64_t steps(std::int64_t count) const;
  /// Number of epochs completed after `step` steps.
  [[nodiscard]] std::int64_t completed(std::int64_t step) const;
  /// True if step `step` completes an epoch whose 1-based number is a multiple of `every`. False if `every`
  /// is 0.
  [[nodiscard]] bool ends(std::int64_t step, std::int64_t every) const;
  /// Steps per epoch, not rounded.
  [[nodiscard]] double length() const;

 private:
  std::int64_t samples_;
  std::int64_t batch_size_;
};

/// Returns `options` with `epochs`, if set, converted to `steps`. Throws Error(kUsage) for more than 10^12
/// steps.
[[nodiscard]] TrainOptions with_steps(const TrainOptions& options, const Epochs& epochs);

}  // namespace echelon
