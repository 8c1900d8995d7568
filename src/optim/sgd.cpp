#include "optim/sgd.h"

#include <ATen/ATen.h>

#include "base/str.h"

namespace echelon {

std::vector<UpdateRule::StateSpec> Sgd::states() const {
  if (momentum_ == 0.0) return {};
  return {{"momentum_buffer", at::kFloat}};
}

void Sgd::update(const UpdateValues& values, std::span<const UpdateRange> ranges) const {
  if (ranges.empty()) return;
  const auto weights = mapped(ranges, &UpdateRange::weights);
  const auto gradients = mapped(ranges, &UpdateRange::gradient);
  std::vector<at::Tensor> buffers;
  for (const UpdateRange& range : ranges)
    buffers.insert(buffers.end(), range.states.begin(), range.states.end());
  std::optional<at::Tensor> divisor;
  if (values.gradient_factor != 1.0) {
    divisor = at::full({}, 1.0 / values.gradient_factor,
                       at::TensorOptions().dtype(at::kFloat).device(weights[0].device()));
  }
  at::_fused_sgd_(weights, gradients, buffers, values.weight_decay, momentum_, values.lr, 0.0, nesterov_,
                  false, false, divisor, {});
}

}  // namespace echelon
