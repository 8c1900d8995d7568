#pragma once
#include "model/layer.h"
#include "shard/memory/offloaded_inputs.h"

namespace echelon {

class Pass;

/// Returns body(inputs) and keeps only the inputs; backward runs body again (Chen et al., Training Deep Nets
/// with Sublinear Memory Cost). Both runs start from the same random state. The first input must require a
/// gradient. `host`: stores the first input, if it is on a GPU, until backward; null: it stays on the device.
/// `pass` learns when body runs in backward. `host` and `pass` must outlive the graph.
[[nodiscard]] at::Tensor recompute_in_backward(const LayerInputs& inputs, const LayerBody& body,
                                               OffloadedInputs* host, Pass& pass);

}  // namespace echelon
