#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "optim/options.h"

namespace echelon {

/// Consecutive elements that one update changes: 1-D views of the same length, on the same device.
struct UpdateRange {
  at::Tensor weights;              ///< fp32, or bf16 if takes_bf16_weights()
  at::Tensor gradient;             ///< fp32; contents undefined afterwards
  std::vector<at::Tensor> states;  ///< in the order of UpdateRule::states()
};

/// The scalars of one update of one parameter group.
struct UpdateValues {
  std::int64_t number = 1;  ///< number of the update, 1-based
  double lr = 0;
  double weight_decay = 0;
  double gradient_factor = 1;  ///< applied to gradients before anything else
};

/// The arithmetic of an optimizer: elementwise on the given ranges, so it knows neither units nor ranks.
/// Stateless: all state between steps is in UpdateRange::states.
class UpdateRule {
 public:
  struct StateSpec {
    std::string name;  ///< as in torch.optim: "exp_avg", "momentum_buffer", ...
    at::ScalarType dtype;
  };

  virtual ~UpdateRule() = default;
  /// The states of the rule; all start as zeros.
  [[nodiscard]] virtual std::vector<StateSpec> states() const = 0;
  /// True if master weights may be bf16; otherwise they must be fp32.
  [[nodiscard]] virtual bool takes_bf16_weights() const { return false; }
  /// Updates weights and states of all ranges. Call without autograd.
  virtual void update(const UpdateValues& values, std::span<const UpdateRange> ranges) const = 0;
};

/// The rule of optim.kind; with Muon that of what is no matrix, AdamW.
[[nodiscard]] std::unique_ptr<UpdateRule> make_rule(const OptimOptions& options);

}  // namespace echelon
