#pragma once
#include <vector>

#include "shard/sharded_model.h"

/// The gradient slices of a model as one vector.
namespace echelon {

/// This rank's contribution to the squared L2 norm: the sum over all ranks is that of the whole gradient.
/// Replicated elements count once. Not finite if an element is not. On a GPU, blocks until the result is on
/// the host.
[[nodiscard]] double sum_of_squares(const ShardedModel& model);

/// The same of each unit: they sum to sum_of_squares().
[[nodiscard]] std::vector<double> squares_by_unit(const ShardedModel& model);

/// Replaces every element by clamp(element * factor, -limit, limit).
void clip_values(const ShardedModel& model, double factor, double limit);

}  // namespace echelon
