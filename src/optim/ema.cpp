#include "optim/ema.h"

#include <ATen/ATen.h>

namespace echelon {

Ema::Ema(double decay, const ShardedModel& model) : decay_(decay), model_(&model) {
  for (const auto& unit : model.units()) slices_.push_back(unit->master().to(at::kFloat, false, true));
}

void Ema::restart() {
  for (std::size_t i = 0; i < slices_.size(); ++i) slices_[i].copy_(model_->units()[i]->master());
}

void Ema::update() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const at::Tensor& weights = model_->units()[i]->master();
    if (weights.scalar_type() == at::kFloat) {
      slices_[i].lerp_(weights, 1.0 - decay_);  // the same formula in one pass; needs equal types
    } else {
      slices_[i].mul_(decay_).add_(weights, 1.0 - decay_);
    }
  }
}

std::unique_ptr<Ema> make_ema(const OptimOptions& options, const ShardedModel& model) {
  return options.ema_decay > 0 ? std::make_unique<Ema>(options.ema_decay, model) : nullptr;
}

}  // namespace echelon
