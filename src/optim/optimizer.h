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

/// One state of an optimizer, as checkpoints name it.
struct OptimizerState {
  std::string name;                ///< "exp_avg", "momentum_buffer", ...
  std::vector<at::Tensor> slices;  ///< one for each unit, [slice_numel], fp32 or bf16; written by a restore
};

/// Updates this rank's slices: an UpdateRule applied to the ranges of each parameter group. Padding at the
/// end of a slice is never touched.
class Optimizer {
 public:
  /// `model` outlives this object. Throws Error(kUsage) for a pattern of `no_decay` or `lr_factors` that
  /// names no parameter, and for weights of a type that the rule does not take.
  Optimizer(std::unique_ptr<UpdateRule> rule, const OptimOptions& options, const ShardedModel& model);

  /// Update number `number` (1-based, for bias correction) with gradients multiplied by `gradient_factor`.
  /// Gradients are worthless afterwards.
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

/// Bytes of state that an optimizer keeps for a parameter, the average of the weights included.
[[nodiscard]] std::int64_t state_bytes_per_parameter(const OptimOptions& options);

/// The optimizer of recipe section `optim`.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const OptimOptions& options,
                                                        const ShardedModel& model);

}  // namespace echelon
