#pragma once
#include <cstdint>

#include "train/options.h"

namespace echelon {

/// Epochs in optimizer steps. Samples are numbered over epochs and steps take them in that order, so no
/// sample is left out at an epoch's end: a step may hold the end of one epoch and the beginning of the next.
class Epochs {
 public:
  /// Samples an epoch and samples a step, both at least one.
  Epochs(std::int64_t samples, std::int64_t batch_size) : samples_(samples), batch_size_(batch_size) {}

  /// Steps until `count` epochs have been seen whole.
  [[nodiscard]] std::int64_t steps(std::int64_t count) const;
  /// Epochs seen whole after `step` steps.
  [[nodiscard]] std::int64_t completed(std::int64_t step) const;
  /// Step `step` sees the last sample of an epoch whose number, from one, is a multiple of `every`.
  [[nodiscard]] bool ends(std::int64_t step, std::int64_t every) const;
  /// Steps of one epoch, not rounded.
  [[nodiscard]] double length() const;

 private:
  std::int64_t samples_;
  std::int64_t batch_size_;
};

/// `options` with steps in place of `options.epochs`, where those are given. Throws Error(kUsage) when that
/// is more than 10^12 steps.
[[nodiscard]] TrainOptions with_steps(const TrainOptions& options, const Epochs& epochs);

}  // namespace echelon
