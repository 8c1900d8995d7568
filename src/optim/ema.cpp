#include "optim/ema.h"

#include <ATen/ATen.h>

#include "shard/memory/host_memory.h"

namespace echelon {

Ema::Ema(double decay, const ShardedModel& model) : decay_(decay), model_(&model) {
  for (const ParameterGroup& all : parameter_groups({}, model))
    ranges_.insert(ranges_.end(), all.ranges.begin(), all.ranges.end());
  for (const auto& unit : model.units())
    slices_.push_back(HostMemory::zeros(unit->trained_numel(), unit->master().options().dtype(at::kFloat)));
  restart();
}

void Ema::restart() {
  for (const SliceRange& range : ranges_) average_of(range).copy_(weights_of(range));
}

void Ema::update() {
  const at::NoGradGuard no_grad;
  for (const SliceRange& range : ranges_) {
    const at::Tensor average = average_of(range);
    const at::Tensor weights = weights_of(range);
    if (weights.scalar_type() == at::kFloat) {
      average.lerp_(weights, 1.0 - decay_);  // the same formula in one pass; needs equal types
    } else {
      average.mul_(decay_).add_(weights, 1.0 - decay_);
    }
  }
}

at::Tensor Ema::average_of(const SliceRange& range) const {
  return slices_[range.unit].narrow(0, range.trained_at, range.numel());
}

at::Tensor Ema::weights_of(const SliceRange& range) const {
  return model_->units()[range.unit]->master().narrow(0, range.begin, range.numel());
}

std::unique_ptr<Ema> make_ema(const OptimOptions& options, const ShardedModel& model) {
  return options.ema_decay > 0 ? std::make_unique<Ema>(options.ema_decay, model) : nullptr;
}

}  // namespace echelon
