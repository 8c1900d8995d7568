#include "optim/gradients.h"

#include <ATen/ATen.h>

#include "model/kernels/kernels.h"
#include "model/ops/device_kernels.h"

namespace echelon {
namespace {

double on_host(const ShardedModel& model) {
  double squares = 0;
  for (const auto& unit : model.units()) {
    const at::Tensor& gradient = unit->gradient();
    squares += kernels::sum_of_squares(gradient.const_data_ptr<float>(), gradient.numel());
  }
  return squares;
}

/// Collects one number per unit on the device, so the host waits only once.
double on_device(const ops::DeviceKernels& device, const ShardedModel& model) {
  const auto count = static_cast<std::int64_t>(model.units().size());
  const at::Tensor squares =
      at::empty({count}, at::TensorOptions().dtype(at::kDouble).device(model.device()));
  for (std::int64_t i = 0; i < count; ++i) device.sum_of_squares(model.units()[i]->gradient(), squares[i]);
  return squares.sum().item<double>();
}

}  // namespace

double sum_of_squares(const ShardedModel& model) {
  const auto* device = model.units().empty() ? nullptr : ops::device_kernels(model.units()[0]->gradient());
  return (device != nullptr ? on_device(*device, model) : on_host(model)) / model.groups().replicas();
}

void clip_values(const ShardedModel& model, double factor, double limit) {
  for (const auto& unit : model.units()) {
    at::Tensor gradient = unit->gradient();
    if (factor != 1.0) gradient.mul_(factor);
    gradient.clamp_(-limit, limit);
  }
}

}  // namespace echelon
