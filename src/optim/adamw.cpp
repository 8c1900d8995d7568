#include "optim/adamw.h"

#include <ATen/ATen.h>

#include "base/str.h"
#include "model/ops/device_kernels.h"

namespace echelon {

std::vector<UpdateRule::StateSpec> AdamW::states() const {
  return {{"exp_avg", at::kFloat}, {"exp_avg_sq", at::kFloat}};
}

void AdamW::update(const UpdateValues& values, std::span<const UpdateRange> ranges) const {
  if (ranges.empty()) return;
  if (const auto* device = ops::device_kernels(ranges[0].weights)) {
    const kernels::AdamWValues numbers{
        values.number, values.lr, betas_[0], betas_[1], eps_, values.weight_decay, values.gradient_factor};
    for (const UpdateRange& range : ranges)
      device->adamw(numbers, range.weights, range.gradient, range.states[0], range.states[1]);
    return;
  }
  const auto weights = mapped(ranges, &UpdateRange::weights);
  const auto gradients = mapped(ranges, &UpdateRange::gradient);
  const auto exp_avgs = mapped(ranges, [](const UpdateRange& range) { return range.states[0]; });
  const auto exp_avg_sqs = mapped(ranges, [](const UpdateRange& range) { return range.states[1]; });
  const auto scalar = at::TensorOptions().dtype(at::kFloat).device(weights[0].device());
  const std::vector<at::Tensor> counts(ranges.size(),
                                       at::full({}, static_cast<double>(values.number), scalar));
  // The fused kernel divides gradients by this as it reads them, so clipping needs no separate pass over
  // memory.
  std::optional<at::Tensor> divisor;
  if (values.gradient_factor != 1.0) divisor = at::full({}, 1.0 / values.gradient_factor, scalar);
  at::_fused_adamw_(weights, gradients, exp_avgs, exp_avg_sqs, {}, counts, values.lr, betas_[0], betas_[1],
                    values.weight_decay, eps_, false, false, divisor, {});
}

}  // namespace echelon
