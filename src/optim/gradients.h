#pragma once
#include "shard/sharded_model.h"

/// The gradient slices of a model as one vector.
namespace echelon {

/// This rank's part of the squared norm: summed over all ranks it is that of the whole gradient, each element
/// counted once however many ranks hold it. Not finite when an element is not.
[[nodiscard]] double sum_of_squares(const ShardedModel& model);

/// Every element becomes clamp(element * factor, -limit, limit).
void clip_values(const ShardedModel& model, double factor, double limit);

}  // namespace echelon
