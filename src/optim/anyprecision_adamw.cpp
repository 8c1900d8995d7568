#include "optim/anyprecision_adamw.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "model/kernels/kernels.h"
#include "shard/sharded_model.h"

namespace echelon {
namespace {

/// Minimum number of elements per thread.
constexpr std::int64_t kGrain = 1 << 14;

/// values *= factor. libtorch's mul_(Scalar) would first round the factor to the type of `values`; Python,
/// where the original implementation runs, does not.
void multiply(at::Tensor& values, double factor) {
  values.mul_(at::scalar_tensor(factor, at::kDouble));
}

kernels::LowPrecisionArray array_of(const at::Tensor& values) {
  return {values.mutable_data_ptr(), values.scalar_type() == at::kBFloat16};
}

}  // namespace

AnyPrecisionAdamW::AnyPrecisionAdamW(const OptimOptions& options)
    : betas_(options.betas), eps_(options.eps), kahan_(options.kahan) {
  states_ = {{"exp_avg", scalar_type(options.momentum_dtype)},
             {"exp_avg_sq", scalar_type(options.variance_dtype)}};
  if (kahan_) states_.push_back({"compensation", scalar_type(options.compensation_dtype)});
}

std::vector<UpdateRule::StateSpec> AnyPrecisionAdamW::states() const {
  return states_;
}

void AnyPrecisionAdamW::update(const UpdateValues& values, std::span<const UpdateRange> ranges) const {
  const auto number = static_cast<double>(values.number);
  const double step_size = values.lr / (1.0 - std::pow(betas_[0], number));
  const kernels::AnyPrecisionNumbers numbers{
      .gradient_factor = static_cast<float>(values.gradient_factor),
      .keep = static_cast<float>(1.0 - values.lr * values.weight_decay),
      .beta1 = static_cast<float>(betas_[0]),
      .one_minus_beta1 = static_cast<float>(1.0 - betas_[0]),
      .beta2 = static_cast<float>(betas_[1]),
      .one_minus_beta2 = static_cast<float>(1.0 - betas_[1]),
      .denominator_correction = static_cast<float>(std::sqrt(1.0 - std::pow(betas_[1], number))),
      .eps = static_cast<float>(eps_),
      .minus_step_size = static_cast<float>(-step_size)};
  for (const UpdateRange& range : ranges) {
    if (!range.weights.is_cpu()) {
      update_by_tensor_operations(values, range);
      continue;
    }
    const kernels::AnyPrecisionArrays arrays{
        .weights = array_of(range.weights),
        .gradient = range.gradient.const_data_ptr<float>(),
        .exp_avg = array_of(range.states[0]),
        .exp_avg_sq = array_of(range.states[1]),
        .compensation = kahan_ ? array_of(range.states[2]) : kernels::LowPrecisionArray{}};
    at::parallel_for(0, range.weights.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      kernels::tables().anyprecision_adamw(numbers, arrays, begin, end);
    });
  }
}

void AnyPrecisionAdamW::update_by_tensor_operations(const UpdateValues& values,
                                                    const UpdateRange& range) const {
  const auto number = static_cast<double>(values.number);
  const double step_size = values.lr / (1.0 - std::pow(betas_[0], number));
  at::Tensor weights = range.weights;
  at::Tensor gradient = range.gradient;
  at::Tensor exp_avg = range.states[0];
  at::Tensor exp_avg_sq = range.states[1];
  if (values.gradient_factor != 1.0) gradient.mul_(values.gradient_factor);
  if (values.weight_decay != 0.0) multiply(weights, 1.0 - values.lr * values.weight_decay);
  multiply(exp_avg, betas_[0]);
  exp_avg.add_(gradient, 1.0 - betas_[0]);
  multiply(exp_avg_sq, betas_[1]);
  exp_avg_sq.addcmul_(gradient, gradient, 1.0 - betas_[1]);
  const at::Tensor denominator =
      exp_avg_sq.sqrt().div_(std::sqrt(1.0 - std::pow(betas_[1], number))).add_(eps_);
  if (!kahan_) {
    weights.addcdiv_(exp_avg, denominator, -step_size);
    return;
  }
  at::Tensor compensation = range.states[2];
  compensation.addcdiv_(exp_avg, denominator, -step_size);
  // Kahan summation: the compensation becomes the part of the update that rounding the weights lost.
  at::Tensor lost = weights.clone();
  weights.add_(compensation);
  compensation.add_(lost.sub_(weights));
}

}  // namespace echelon
