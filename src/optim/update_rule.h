#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace echelon {

/// A run of elements that one update changes: 1-D views of the same length and on the same device.
struct UpdateRange {
  at::Tensor weights;              ///< fp32, or bf16 for a rule that says so
  at::Tensor gradient;             ///< fp32; worthless afterwards
  std::vector<at::Tensor> states;  ///< in the order of UpdateRule::states()
};

/// The numbers of one update of one parameter group.
struct UpdateValues {
  std::int64_t number = 1;  ///< 1-based
  double lr = 0;
  double weight_decay = 0;
  double gradient_factor = 1;  ///< gradients count as multiplied by this
};

/// The arithmetic of an optimizer: elementwise, on whatever ranges it is given, so it knows neither units nor
/// ranks. Stateless: what lasts from step to step is in UpdateRange::states.
class UpdateRule {
 public:
  struct StateSpec {
    std::string name;  ///< as in torch.optim: "exp_avg", "momentum_buffer", ...
    at::ScalarType dtype;
  };

  virtual ~UpdateRule() = default;
  /// Every state starts as zeros.
  [[nodiscard]] virtual std::vector<StateSpec> states() const = 0;
  /// May the weights that persist be bf16? Otherwise they are fp32.
  [[nodiscard]] virtual bool takes_bf16_weights() const { return false; }
  virtual void update(const UpdateValues& values, std::span<const UpdateRange> ranges) const = 0;
};

}  // namespace echelon
