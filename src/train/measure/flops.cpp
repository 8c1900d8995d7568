#include "train/measure/flops.h"

#include <algorithm>

namespace echelon {

double flops_per_sample(const ShardedModel& model, const SampleShape& shape) {
  // The roots come first, but are in use up to the head (a tied one is in a root).
  const bool roots_pass_on = std::ranges::any_of(
      model.units(), [](const auto& unit) { return unit->trains() && !unit->plan().is_head(); });
  double forward = 0;
  double of_inputs = 0;
  double of_weights = 0;
  double blocks = 0;
  double blocks_behind = 0;  // the first trained unit
  bool trained = false;      // up to here
  for (const auto& unit : model.units()) {
    trained = trained || unit->trains();
    if (!unit->plan().weights_in_backward) continue;  // looked up, not multiplied
    const bool root = unit->plan().layer == nullptr;
    const auto numel = static_cast<double>(unit->layout().numel());
    forward += numel;
    of_inputs += (root ? roots_pass_on : trained) ? numel : 0;
    of_weights += static_cast<double>(unit->plan().trained_numel());
    if (root || unit->plan().is_head()) continue;
    blocks += numel;
    blocks_behind += trained ? numel : 0;
  }
  const double matrices = forward > 0 ? (forward + of_inputs + of_weights) / (3 * forward) : 1;
  const double behind = blocks > 0 ? blocks_behind / blocks : (roots_pass_on ? 1 : 0);
  const SampleFlops whole = model.model().flops_per_sample(shape);
  return matrices * whole.matrices + (1 + 2 * behind) / 3 * whole.attention;
}

}  // namespace echelon
