#pragma once
#include <memory>

#include "model/layer.h"
#include "shard/memory/offloaded_inputs.h"

namespace echelon {

/// Receives the begin and end of every recomputation, and when its forward is done.
class RecomputeGuard {
 public:
  virtual ~RecomputeGuard() = default;
  virtual void begin_recompute() = 0;
  virtual void recomputed() = 0;
  virtual void end_recompute() = 0;
};

/// Returns body(inputs) and keeps only the inputs; backward runs body again (Chen et al., Training Deep Nets
/// with Sublinear Memory Cost). Both runs start from the same random state. The first input must require a
/// gradient. `host`: stores the first input, if it is on a GPU, until backward; null: it stays on the device.
/// `guard`: its calls surround each run of body in backward. `host` and `guard` must outlive the graph.
[[nodiscard]] at::Tensor recompute_in_backward(const LayerInputs& inputs, const LayerBody& body,
                                               OffloadedInputs* host, RecomputeGuard& guard);

}  // namespace echelon
