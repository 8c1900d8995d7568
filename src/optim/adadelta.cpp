#include "optim/adadelta.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace echelon {
namespace {

/// Elements per block, so that a chain of tensor operations stays in a core's cache. A GPU processes whole
/// ranges, because there the launch of an operation costs more.
constexpr std::int64_t kBlock = 1 << 16;

}  // namespace

std::vector<UpdateRule::StateSpec> Adadelta::states() const {
  return {{"square_avg", at::kFloat}, {"acc_delta", at::kFloat}};
}

void Adadelta::update(const UpdateValues& values, std::span<const UpdateRange> ranges) const {
  for (const UpdateRange& range : ranges) {
    const std::int64_t numel = range.weights.numel();
    const std::int64_t block = range.weights.is_cpu() ? kBlock : numel;
    for (std::int64_t at = 0; at < numel; at += block) {
      const std::int64_t count = std::min(block, numel - at);
      update_block(values, {range.weights.narrow(0, at, count),
                            range.gradient.narrow(0, at, count),
                            {range.states[0].narrow(0, at, count), range.states[1].narrow(0, at, count)}});
    }
  }
}

void Adadelta::update_block(const UpdateValues& values, const UpdateRange& block) const {
  at::Tensor weights = block.weights;
  at::Tensor gradient = block.gradient;
  at::Tensor square_avg = block.states[0];
  at::Tensor acc_delta = block.states[1];
  if (values.gradient_factor != 1.0) gradient.mul_(values.gradient_factor);
  if (values.weight_decay != 0.0) gradient.add_(weights, values.weight_decay);
  square_avg.mul_(rho_).addcmul_(gradient, gradient, 1.0 - rho_);
  const at::Tensor deviation = square_avg.add(eps_).sqrt_();
  const at::Tensor delta = acc_delta.add(eps_).sqrt_().div_(deviation).mul_(gradient);
  weights.add_(delta, -values.lr);
  acc_delta.mul_(rho_).addcmul_(delta, delta, 1.0 - rho_);
}

}  // namespace echelon
