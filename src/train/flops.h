#pragma once
#include "shard/sharded_model.h"

namespace echelon {

/// Model::flops_per_sample() without what frozen parameters save. Of the three products in which a weight
/// takes part, the gradient of its input is computed from the first unit on that is trained, and that of the
/// weight only if it is trained. Attention counts in proportion.
[[nodiscard]] double flops_per_sample(const ShardedModel& model, const SampleShape& shape);

}  // namespace echelon
