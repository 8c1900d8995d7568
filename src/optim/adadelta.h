#pragma once
#include "optim/options.h"
#include "optim/update_rule.h"

namespace echelon {

/// Adadelta (Zeiler), as torch.optim.Adadelta: fp32 weights and states; weight decay is added to the
/// gradient.
class Adadelta final : public UpdateRule {
 public:
  explicit Adadelta(const OptimOptions& options) : rho_(options.rho), eps_(options.eps) {}
  [[nodiscard]] std::vector<StateSpec> states() const override;
  void update(const UpdateValues& values, std::span<const UpdateRange> ranges) const override;

 private:
  void update_block(const UpdateValues& values, const UpdateRange& block) const;

  double rho_;
  double eps_;
};

}  // namespace echelon
