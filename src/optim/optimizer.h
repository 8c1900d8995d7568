#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "optim/muon/muon.h"
#include "optim/options.h"
#include "optim/parameter_groups.h"
#include "optim/update_rule.h"
#include "shard/sharded_model.h"

namespace echelon {

/// One kind of optimizer state.
struct OptimizerState {
  std::string name;  ///< "exp_avg", "momentum_buffer", ...
  /// One tensor per unit, fp32 or bf16: packed() of what has this state. A restore writes to them.
  std::vector<at::Tensor> slices;
  std::function<bool(const Parameter::Part&)> holds;  ///< false for what is frozen
};

/// Updates this rank's slices by applying an UpdateRule to the ranges of each parameter group, and Muon to
/// matrices. Never writes to the padding of a slice, nor to what is frozen. Not thread-safe.
class Optimizer {
 public:
  /// `model` must outlive this object. Throws Error(kUsage) for a pattern of `no_decay` or `lr_factors` that
  /// matches no parameter, for weights of a type that the rule does not support, and for Muon without
  /// matrices.
  Optimizer(const OptimOptions& options, const ShardedModel& model);

  /// Update `number` (1-based, for bias correction) with gradients multiplied by `gradient_factor`. The
  /// contents of gradients are undefined afterwards. The caller must then call
  /// ShardedModel::weights_changed(). Collective with Muon, else local.
  void step(std::int64_t number, double lr, double gradient_factor);

  [[nodiscard]] OptimKind kind() const { return kind_; }
  [[nodiscard]] const std::vector<OptimizerState>& states() const { return states_; }

 private:
  /// A ParameterGroup as the rule updates it.
  struct Group {
    double lr_factor;
    double weight_decay;
    std::vector<UpdateRange> ranges;
  };
  OptimKind kind_;
  std::unique_ptr<UpdateRule> rule_;
  std::vector<Group> groups_;
  std::vector<OptimizerState> states_;  ///< those of the rule, then Muon's
  std::unique_ptr<Muon> muon_;          ///< null with other kinds
};

/// Bytes of optimizer state, including averaged weights. `options` must outlive the function.
[[nodiscard]] StateBytes state_bytes(const OptimOptions& options);

}  // namespace echelon
