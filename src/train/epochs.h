#pragma once
#include <cstdint>

#include "train/options.h"

namespace echelon {

/// Converts between epochs and optimizer steps. Samples are numbered across epochs, and steps take them in
/// that order. A step may therefore contain the end of one epoch and the start of the next, and no sample is
/// dropped.
class Epochs {
 public:
  /// After `step` steps the run is at sample `sample`. Before, steps may have had another number of samples.
  struct Begin {
    std::int64_t step;
    std::int64_t sample;
  };

  /// Samples per epoch, and per step from `begin` on, both at least 1.
  Epochs(std::int64_t samples, std::int64_t batch_size, const Begin& begin = {})
      : samples_(samples), batch_size_(batch_size), begin_(begin) {}

  /// The step that completes `count` epochs; that of `begin` if they are complete by then.
  [[nodiscard]] std::int64_t steps(std::int64_t count) const;
  /// Number of epochs completed after `step` steps, as all below not before `begin`.
  [[nodiscard]] std::int64_t completed(std::int64_t step) const;
  /// True if step `step` completes an epoch whose 1-based number is a multiple of `every`. False if `every`
  /// is 0.
  [[nodiscard]] bool ends(std::int64_t step, std::int64_t every) const;
  /// The same, not rounded.
  [[nodiscard]] double passes(std::int64_t step) const;

 private:
  [[nodiscard]] std::int64_t sample_after(std::int64_t step) const {
    return begin_.sample + (step - begin_.step) * batch_size_;
  }

  std::int64_t samples_;
  std::int64_t batch_size_;
  Begin begin_;
};

/// Returns `options` with `epochs`, if set, converted to `steps`. Throws Error(kUsage) for more than 10^12
/// steps.
[[nodiscard]] TrainOptions with_steps(const TrainOptions& options, const Epochs& epochs);

}  // namespace echelon
