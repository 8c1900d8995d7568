#include "train/epochs.h"

#include <algorithm>

#include "base/error.h"

namespace echelon {

// These products do not overflow: a recipe whose sample numbers reach 2^63 is refused.
std::int64_t Epochs::steps(std::int64_t count) const {
  const std::int64_t ahead = std::max<std::int64_t>(0, count * samples_ - begin_.sample);
  return begin_.step + (ahead + batch_size_ - 1) / batch_size_;
}

std::int64_t Epochs::completed(std::int64_t step) const {
  return sample_after(step) / samples_;
}

bool Epochs::ends(std::int64_t step, std::int64_t every) const {
  return every > 0 && completed(step) / every > completed(step - 1) / every;
}

double Epochs::passes(std::int64_t step) const {
  return static_cast<double>(sample_after(step)) / static_cast<double>(samples_);
}

TrainOptions with_steps(const TrainOptions& options, const Epochs& epochs) {
  constexpr std::int64_t kMostSteps = 1'000'000'000'000;
  TrainOptions result = options;
  if (options.epochs == 0) return result;
  result.steps = epochs.steps(options.epochs);
  result.epochs = 0;
  if (result.steps > kMostSteps) {
    throw Error(Code::kUsage, "train.epochs is ", options.epochs, ", which is more than ", kMostSteps,
                " steps of this data; set train.steps instead");
  }
  return result;
}

}  // namespace echelon
