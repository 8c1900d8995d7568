#pragma once
#include "recipe/recipe.h"

namespace echelon::app {

/// Optimizer steps of the runs that train with the recipe's own optimizer.
inline constexpr std::int64_t kProvedSteps = 6;

/// A recipe of the same kind that trains in a second: fewer layers, small widths with the ratios of heads,
/// their size and hidden size kept, short sequences, few tokens and classes, a global batch of two
/// micro-batches on each of `ranks`, kProvedSteps steps on CPUs. Strategy, wrapping, recomputation,
/// precision, packing, dropout, adapters, optimizer and the form of the schedule stay. Without validation,
/// evaluation and files of data (own_data.h). Patterns that match nothing in the small model are left out.
[[nodiscard]] Recipe small_recipe(Recipe recipe, int ranks);

/// Makes what depends on the number of ranks fit `ranks`: hybrid groups, partial gathering.
void fit_to(int ranks, ShardOptions& shard);

/// True if every type is fp32.
[[nodiscard]] bool is_fp32(const PrecisionOptions& precision);

}  // namespace echelon::app
