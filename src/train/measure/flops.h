#pragma once
#include "shard/sharded_model.h"

namespace echelon {

/// Model::flops_per_sample() without the products that frozen parameters save. A weight takes part in three
/// products. The gradient of its input is computed from the first trained unit on, and the gradient of the
/// weight only if it is trained. The backward products of attention are computed in the blocks from the first
/// trained one on. Products are shared out among units by their parameters: an estimate where units see
/// different numbers of positions, as in T5 and convolutions.
[[nodiscard]] double flops_per_sample(const ShardedModel& model, const SampleShape& shape);

}  // namespace echelon
