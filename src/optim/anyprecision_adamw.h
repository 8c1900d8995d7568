#pragma once
#include "optim/update_rule.h"

namespace echelon {

/// AdamW with states, and optionally weights, in low precision: AnyPrecisionAdamW of Meta's torchdistx.
/// Weight decay comes first. Each moment has its own type. With Kahan summation, a third state collects the
/// rounding errors of the weights, so bf16 weights still receive small updates. Every intermediate result is
/// rounded where the tensor operations of the original implementation round it. Bias corrections are computed
/// in double precision.
class AnyPrecisionAdamW final : public UpdateRule {
 public:
  /// Throws Error(kUsage) for a type other than fp32 and bf16.
  explicit AnyPrecisionAdamW(const OptimOptions& options);
  /// exp_avg, exp_avg_sq and, with Kahan summation, compensation.
  [[nodiscard]] std::vector<StateSpec> states() const override;
  [[nodiscard]] bool takes_bf16_weights() const override { return true; }
  /// Updates in one pass over memory on the CPU, and by update_by_tensor_operations() on other devices.
  void update(const UpdateValues& values, std::span<const UpdateRange> ranges) const override;

  /// The tensor operations of the original implementation, on any device.
  void update_by_tensor_operations(const UpdateValues& values, const UpdateRange& range) const;

 private:
  std::array<double, 2> betas_;
  double eps_;
  bool kahan_;
  std::vector<StateSpec> states_;
};

}  // namespace echelon
