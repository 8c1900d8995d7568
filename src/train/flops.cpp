#include "train/flops.h"

namespace echelon {

double flops_per_sample(const ShardedModel& model, const SampleShape& shape) {
  double forward = 0;
  double of_inputs = 0;
  double of_weights = 0;
  bool trained = false;  // up to here
  for (const auto& unit : model.units()) {
    trained = trained || unit->trains();
    if (!unit->plan().weights_in_backward) continue;  // looked up, not multiplied
    const auto numel = static_cast<double>(unit->layout().numel());
    forward += numel;
    of_inputs += trained ? numel : 0;
    of_weights += static_cast<double>(unit->plan().trained_numel());
  }
  const double share = forward > 0 ? (forward + of_inputs + of_weights) / (3 * forward) : 1;
  return share * model.model().flops_per_sample(shape);
}

}  // namespace echelon
