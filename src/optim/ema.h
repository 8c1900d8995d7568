#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "optim/options.h"
#include "shard/sharded_model.h"

namespace echelon {

/// Exponential moving average of the weights, each rank its slices in fp32: average = decay * average +
/// (1 - decay) * weights after every step. It starts as the weights of the moment it is made.
class Ema {
 public:
  /// `model` outlives this object; `decay` in (0, 1).
  Ema(double decay, const ShardedModel& model);

  /// The average starts anew, as the weights of this moment.
  void restart();

  /// After each optimizer step.
  void update();

  /// One for each unit, fp32 [slice_numel]; written by a restore.
  [[nodiscard]] const std::vector<at::Tensor>& slices() const { return slices_; }

 private:
  double decay_;
  const ShardedModel* model_;
  std::vector<at::Tensor> slices_;
};

/// Null when the options ask for no average.
[[nodiscard]] std::unique_ptr<Ema> make_ema(const OptimOptions& options, const ShardedModel& model);

}  // namespace echelon
