#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "shard/sharded_model.h"
#include "train/options.h"

namespace echelon {

/// AdamW (Loshchilov & Hutter) on this rank's slices: fp32 weights, gradients and states, one fused pass a
/// unit.
class AdamW {
 public:
  AdamW(const OptimOptions& options, const ShardedModel& model);

  /// Update number `step` (1-based, for bias correction) with gradients multiplied by `gradient_factor`.
  void step(std::int64_t step, double lr, double gradient_factor);

  /// States of unit i's slice, fp32 [slice_numel]; written by a restore.
  struct State {
    at::Tensor exp_avg;
    at::Tensor exp_avg_sq;
  };
  [[nodiscard]] const std::vector<State>& states() const { return states_; }

 private:
  OptimOptions options_;
  const ShardedModel* model_;
  std::vector<State> states_;
};

}  // namespace echelon
