#include "train/adamw.h"

#include <ATen/ATen.h>

namespace echelon {

AdamW::AdamW(const OptimOptions& options, const ShardedModel& model) : options_(options), model_(&model) {
  for (const auto& unit : model.units()) {
    states_.push_back({at::zeros_like(unit->master()), at::zeros_like(unit->master())});
  }
}

void AdamW::step(std::int64_t step, double lr, double gradient_factor) {
  const at::NoGradGuard no_grad;
  const auto scalar = at::TensorOptions().dtype(at::kFloat).device(model_->device());
  const at::Tensor count = at::full({}, static_cast<double>(step), scalar);
  // The fused kernel divides gradients by this while it reads them: clipping costs no pass of its own.
  std::optional<at::Tensor> divisor;
  if (gradient_factor != 1.0) divisor = at::full({}, 1.0 / gradient_factor, scalar);
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const Unit& unit = *model_->units()[i];
    at::_fused_adamw_({unit.master()}, {unit.gradient()}, {states_[i].exp_avg}, {states_[i].exp_avg_sq}, {},
                      {count}, lr, options_.betas[0], options_.betas[1], options_.weight_decay, options_.eps,
                      false, false, divisor, {});
  }
}

}  // namespace echelon
