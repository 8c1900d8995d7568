#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "optim/options.h"
#include "optim/parameter_groups.h"
#include "optim/update_rule.h"
#include "shard/sharded_model.h"

namespace echelon {

/// One kind of optimizer state.
struct OptimizerState {
  std::string name;  ///< "exp_avg", "momentum_buffer", ...
  /// One tensor per unit, [trained_numel], fp32 or bf16: what is frozen has no state. A restore writes to
  /// them.
  std::vector<at::Tensor> slices;
};

/// Updates this rank's slices by applying an UpdateRule to the ranges of each parameter group. Never writes
/// to the padding of a slice, nor to what is frozen. Local; not thread-safe.
class Optimizer {
 public:
  /// `model` must outlive this object. Throws Error(kUsage) for a pattern of `no_decay` or `lr_factors` that
  /// matches no parameter, and for weights of a type that the rule does not support.
  Optimizer(std::unique_ptr<UpdateRule> rule, const OptimOptions& options, const ShardedModel& model);

  /// Update `number` (1-based, for bias correction) with gradients multiplied by `gradient_factor`. The
  /// contents of gradients are undefined afterwards. The caller must then call
  /// ShardedModel::weights_changed().
  void step(std::int64_t number, double lr, double gradient_factor);

  [[nodiscard]] OptimKind kind() const { return kind_; }
  [[nodiscard]] const std::vector<OptimizerState>& states() const { return states_; }

 private:
  OptimKind kind_;
  double weight_decay_;
  std::unique_ptr<UpdateRule> rule_;
  std::vector<ParameterGroup> groups_;
  const ShardedModel* model_;
  std::vector<OptimizerState> states_;
};

/// Bytes of optimizer state per parameter that is trained, including averaged weights.
[[nodiscard]] std::int64_t state_bytes_per_parameter(const OptimOptions& options);

/// The optimizer of recipe section `optim`.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const OptimOptions& options,
                                                        const ShardedModel& model);

}  // namespace echelon
