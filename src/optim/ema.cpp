#include "optim/ema.h"

#include <ATen/ATen.h>

#include "optim/parameter_groups.h"
#include "shard/memory/host_memory.h"

namespace echelon {

Ema::Ema(double decay, const ShardedModel& model) : decay_(decay) {
  for (const auto& unit : model.units())
    slices_.push_back(HostMemory::zeros(unit->trained_numel(), unit->master().options().dtype(at::kFloat)));
  for (const ParameterGroup& all : parameter_groups({}, model)) {
    for (const SliceRange& range : all.ranges)
      ranges_.push_back({slices_[range.unit].narrow(0, range.trained_at, range.numel()),
                         model.units()[range.unit]->master().narrow(0, range.begin, range.numel())});
  }
  restart();
}

void Ema::restart() {
  for (const Range& range : ranges_) range.average.copy_(range.weights);
}

void Ema::update() {
  const at::NoGradGuard no_grad;
  for (const auto& [average, weights] : ranges_) {
    if (weights.scalar_type() == at::kFloat) {
      average.lerp_(weights, 1.0 - decay_);  // the same formula in one pass; needs equal types
    } else {
      average.mul_(decay_).add_(weights, 1.0 - decay_);
    }
  }
}

std::unique_ptr<Ema> make_ema(const OptimOptions& options, const ShardedModel& model) {
  return options.ema_decay > 0 ? std::make_unique<Ema>(options.ema_decay, model) : nullptr;
}

}  // namespace echelon
