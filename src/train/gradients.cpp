#include "train/gradients.h"

#include <ATen/ATen.h>

#include "model/kernels/kernels.h"

namespace echelon {

double sum_of_squares(const ShardedModel& model) {
  double squares = 0;
  for (const auto& unit : model.units()) {
    const at::Tensor& gradient = unit->gradient();
    squares += gradient.is_cpu() ? kernels::sum_of_squares(gradient.const_data_ptr<float>(), gradient.numel())
                                 : gradient.to(at::kDouble).square().sum().item<double>();
  }
  return squares / model.groups().replicas();
}

void clip_values(const ShardedModel& model, double factor, double limit) {
  for (const auto& unit : model.units()) {
    at::Tensor gradient = unit->gradient();
    if (factor != 1.0) gradient.mul_(factor);
    gradient.clamp_(-limit, limit);
  }
}

}  // namespace echelon
