#pragma once
#include "optim/options.h"
#include "optim/update_rule.h"

namespace echelon {

/// AdamW with states, and if wanted weights, in low precision: AnyPrecisionAdamW of Meta's torchdistx. Weight
/// decay first; each moment is kept in its own type; with Kahan summation a third state collects what
/// rounding the weights lost, so that bf16 weights still receive small updates. Every intermediate result is
/// rounded where the chain of tensor operations of the publication rounds it. Bias corrections are computed
/// in double precision.
class AnyPrecisionAdamW final : public UpdateRule {
 public:
  /// Throws Error(kUsage) for a type other than fp32 and bf16.
  explicit AnyPrecisionAdamW(const OptimOptions& options);
  /// exp_avg, exp_avg_sq and, with Kahan summation, compensation.
  [[nodiscard]] std::vector<StateSpec> states() const override;
  [[nodiscard]] bool takes_bf16_weights() const override { return true; }
  /// On the CPU one pass over memory, elsewhere the chain of tensor operations.
  void update(const UpdateValues& values, std::span<const UpdateRange> ranges) const override;

  /// The chain of tensor operations, on any device.
  void update_by_tensor_operations(const UpdateValues& values, const UpdateRange& range) const;

 private:
  std::array<double, 2> betas_;
  double eps_;
  bool kahan_;
  std::vector<StateSpec> states_;
};

}  // namespace echelon
