#include "optim/update_rule.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/str.h"
#include "model/ops/device_kernels.h"
#include "optim/anyprecision_adamw.h"

namespace echelon {
namespace {

/// What the fused kernels divide gradients by as they read them, so that clipping needs no separate pass over
/// memory.
std::optional<at::Tensor> divisor_of(const UpdateValues& values, at::Device device) {
  if (values.gradient_factor == 1.0) return {};
  return at::full({}, 1.0 / values.gradient_factor, at::TensorOptions().dtype(at::kFloat).device(device));
}

/// AdamW (Loshchilov & Hutter): fp32 weights and states, one fused pass.
class AdamW final : public UpdateRule {
 public:
  explicit AdamW(const OptimOptions& options) : betas_(options.betas), eps_(options.eps) {}
  [[nodiscard]] std::vector<StateSpec> states() const override {
    return {{"exp_avg", at::kFloat}, {"exp_avg_sq", at::kFloat}};
  }
  void update(const UpdateValues& values, std::span<const UpdateRange> ranges) const override {
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
    const at::Device device = weights[0].device();
    const auto scalar = at::TensorOptions().dtype(at::kFloat).device(device);
    const std::vector<at::Tensor> counts(ranges.size(),
                                         at::full({}, static_cast<double>(values.number), scalar));
    at::_fused_adamw_(weights, gradients, exp_avgs, exp_avg_sqs, {}, counts, values.lr, betas_[0], betas_[1],
                      values.weight_decay, eps_, false, false, divisor_of(values, device), {});
  }

 private:
  std::array<double, 2> betas_;
  double eps_;
};

/// Stochastic gradient descent, as torch.optim.SGD: weight decay is added to the gradient; momentum without
/// dampening, so a buffer of zeros becomes the first gradient; optionally Nesterov momentum. fp32, one fused
/// pass.
class Sgd final : public UpdateRule {
 public:
  explicit Sgd(const OptimOptions& options) : momentum_(options.momentum), nesterov_(options.nesterov) {}
  /// Returns no states without momentum.
  [[nodiscard]] std::vector<StateSpec> states() const override {
    if (momentum_ == 0.0) return {};
    return {{"momentum_buffer", at::kFloat}};
  }
  void update(const UpdateValues& values, std::span<const UpdateRange> ranges) const override {
    if (ranges.empty()) return;
    const auto weights = mapped(ranges, &UpdateRange::weights);
    const auto gradients = mapped(ranges, &UpdateRange::gradient);
    std::vector<at::Tensor> buffers;
    for (const UpdateRange& range : ranges)
      buffers.insert(buffers.end(), range.states.begin(), range.states.end());
    at::_fused_sgd_(weights, gradients, buffers, values.weight_decay, momentum_, values.lr, 0.0, nesterov_,
                    false, false, divisor_of(values, weights[0].device()), {});
  }

 private:
  double momentum_;
  bool nesterov_;
};

/// Adadelta (Zeiler), as torch.optim.Adadelta: fp32 weights and states; weight decay is added to the
/// gradient.
class Adadelta final : public UpdateRule {
 public:
  explicit Adadelta(const OptimOptions& options) : rho_(options.rho), eps_(options.eps) {}
  [[nodiscard]] std::vector<StateSpec> states() const override {
    return {{"square_avg", at::kFloat}, {"acc_delta", at::kFloat}};
  }
  void update(const UpdateValues& values, std::span<const UpdateRange> ranges) const override {
    // Elements per block, so that a chain of tensor operations stays in a core's cache. A GPU processes whole
    // ranges, because there the launch of an operation costs more.
    constexpr std::int64_t kBlock = 1 << 16;
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

 private:
  void update_block(const UpdateValues& values, const UpdateRange& block) const {
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

  double rho_;
  double eps_;
};

}  // namespace

std::unique_ptr<UpdateRule> make_rule(const OptimOptions& options) {
  switch (options.kind) {
    case OptimKind::kAdamW:
    case OptimKind::kMuon:  // of what is no matrix
      break;
    case OptimKind::kAnyPrecisionAdamW: return std::make_unique<AnyPrecisionAdamW>(options);
    case OptimKind::kSgd: return std::make_unique<Sgd>(options);
    case OptimKind::kAdadelta: return std::make_unique<Adadelta>(options);
  }
  return std::make_unique<AdamW>(options);
}

}  // namespace echelon
