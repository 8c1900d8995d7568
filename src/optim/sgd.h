#pragma once
#include "optim/options.h"
#include "optim/update_rule.h"

namespace echelon {

/// Stochastic gradient descent, as torch.optim.SGD: weight decay is added to the gradient; momentum without
/// dampening, so a buffer of zeros becomes the first gradient; optionally Nesterov momentum. fp32, one fused
/// pass.
class Sgd final : public UpdateRule {
 public:
  explicit Sgd(const OptimOptions& options) : momentum_(options.momentum), nesterov_(options.nesterov) {}
  /// Returns no states without momentum.
  [[nodiscard]] std::vector<StateSpec> states() const override;
  void update(const UpdateValues& values, std::span<const UpdateRange> ranges) const override;

 private:
  double momentum_;
  bool nesterov_;
};

}  // namespace echelon
