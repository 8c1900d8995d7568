#pragma once
#include "optim/options.h"
#include "optim/update_rule.h"

namespace echelon {

/// AdamW (Loshchilov & Hutter): fp32 weights and states, one fused pass.
class AdamW final : public UpdateRule {
 public:
  explicit AdamW(const OptimOptions& options) : betas_(options.betas), eps_(options.eps) {}
  [[nodiscard]] std::vector<StateSpec> states() const override;
  void update(const UpdateValues& values, std::span<const UpdateRange> ranges) const override;

 private:
  std::array<double, 2> betas_;
  double eps_;
};

}  // namespace echelon
