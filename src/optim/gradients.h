#pragma once
#include <vector>

#include "shard/sharded_model.h"

/// The gradient slices of a model as one vector.
namespace echelon {

/// Returns this rank's part of the squared L2 norm; the sum over all ranks is the squared norm of the whole
/// gradient. Replicated elements count once. The result is not finite if an element is not. On a GPU, blocks
/// until the result is on the host.
[[nodiscard]] double sum_of_squares(const ShardedModel& model);

/// Returns this rank's part for each unit; the parts sum to sum_of_squares().
[[nodiscard]] std::vector<double> squares_by_unit(const ShardedModel& model);

/// Replaces every element by clamp(element * factor, -limit, limit).
void clip_values(const ShardedModel& model, double factor, double limit);

}  // namespace echelon
