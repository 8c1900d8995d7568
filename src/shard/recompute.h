#pragma once
#include <memory>

#include "model/layer.h"
#include "shard/memory/offloaded_inputs.h"

namespace echelon {

/// What recomputation asks of its surroundings.
class RecomputeGuard {
 public:
  virtual ~RecomputeGuard() = default;
  virtual void begin_recompute() = 0;
  virtual void end_recompute() = 0;
};

/// body(inputs), of which only the inputs are kept: backward computes body again (Chen et al., Training Deep
/// Nets with Sublinear Memory Cost). Random numbers are drawn from the same state both times. `host`: where
/// the first input waits, unless it is on the CPU; null: it stays where it is. `guard` is told when body runs
/// for backward. Both outlive the graph. The first input requires grad.
[[nodiscard]] at::Tensor recompute_in_backward(const LayerInputs& inputs, const LayerBody& body,
                                               OffloadedInputs* host, RecomputeGuard& guard);

}  // namespace echelon
