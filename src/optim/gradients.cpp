#include "optim/gradients.h"

#include <ATen/ATen.h>

#include <numeric>

#include "model/kernels/kernels.h"
#include "model/ops/device_kernels.h"

namespace echelon {
namespace {

const ops::DeviceKernels* device_of(const ShardedModel& model) {
  return model.units().empty() ? nullptr : ops::device_kernels(model.units()[0]->gradient());
}

std::vector<double> on_host(const ShardedModel& model) {
  std::vector<double> squares;
  for (const auto& unit : model.units()) {
    const at::Tensor& gradient = unit->gradient();
    squares.push_back(kernels::tables().sum_of_squares(gradient.const_data_ptr<float>(), gradient.numel()));
  }
  return squares;
}

/// One number per unit on the device, so the host waits only once.
at::Tensor on_device(const ops::DeviceKernels& device, const ShardedModel& model) {
  const auto count = static_cast<std::int64_t>(model.units().size());
  at::Tensor squares = at::zeros({count}, at::TensorOptions().dtype(at::kDouble).device(model.device()));
  for (std::int64_t i = 0; i < count; ++i) {
    if (model.units()[i]->trains()) device.sum_of_squares(model.units()[i]->gradient(), squares[i]);
  }
  return squares;
}

}  // namespace

double sum_of_squares(const ShardedModel& model) {
  const ops::DeviceKernels* device = device_of(model);
  if (device != nullptr) return on_device(*device, model).sum().item<double>() / model.groups().replicas();
  const std::vector<double> squares = on_host(model);
  return std::accumulate(squares.begin(), squares.end(), 0.0) / model.groups().replicas();
}

std::vector<double> squares_by_unit(const ShardedModel& model) {
  const ops::DeviceKernels* device = device_of(model);
  std::vector<double> squares;
  if (device == nullptr) {
    squares = on_host(model);
  } else {
    const at::Tensor copied = on_device(*device, model).to(at::kCPU);
    squares.assign(copied.const_data_ptr<double>(), copied.const_data_ptr<double>() + copied.numel());
  }
  for (double& square : squares) square /= model.groups().replicas();
  return squares;
}

void clip_values(const ShardedModel& model, double factor, double limit) {
  for (const auto& unit : model.units()) {
    at::Tensor gradient = unit->gradient();
    if (factor != 1.0) gradient.mul_(factor);
    gradient.clamp_(-limit, limit);
  }
}

}  // namespace echelon
