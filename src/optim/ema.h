#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "optim/options.h"
#include "shard/sharded_model.h"

namespace echelon {

/// Exponential moving average of the weights: average = decay * average + (1 - decay) * weights after every
/// step. Each rank keeps its slices, in fp32. Frozen parameters are left out: they are their own average.
/// Starts as a copy of the weights at construction. Local; not thread-safe.
class Ema {
 public:
  /// `model` must outlive this object. `decay`: in (0, 1).
  Ema(double decay, const ShardedModel& model);

  /// Restarts the average as a copy of the current weights.
  void restart();

  /// Call after each optimizer step.
  void update();

  /// One tensor per unit, fp32 [trained_numel]. A restore writes to them.
  [[nodiscard]] const std::vector<at::Tensor>& slices() const { return slices_; }

 private:
  /// Adjacent elements that are trained.
  struct Range {
    at::Tensor average;
    at::Tensor weights;
  };
  double decay_;
  std::vector<Range> ranges_;
  std::vector<at::Tensor> slices_;
};

/// Null if options.ema_decay is 0.
[[nodiscard]] std::unique_ptr<Ema> make_ema(const OptimOptions& options, const ShardedModel& model);

}  // namespace echelon
