#pragma once
#include <string>
#include <vector>

#include "app/engine/engine.h"
#include "recipe/recipe.h"

/// The variants of a recipe that the runs of a proof use.
namespace echelon::app {

/// "2 ranks, full_shard, 2 passes of 1, recompute full"
[[nodiscard]] std::string describe(const Recipe& recipe, int ranks);

/// Returns a recipe of one SGD step. Its checkpoint holds the momentum, which then equals the gradient.
[[nodiscard]] Recipe of_one_gradient(Recipe recipe);

/// Returns the recipe with fp32 as every type, also of the optimizer's states.
[[nodiscard]] Recipe in_fp32(Recipe recipe);

/// Returns the recipe with the types of `own`, but with weights that the optimizer updates in fp32.
[[nodiscard]] Recipe in_precision(Recipe recipe, const PrecisionOptions& own);

/// Returns whether the last norm rounds to bf16, and nothing behind it does.
[[nodiscard]] bool rounds_in_norms(const Recipe& recipe);

/// Steps whose updates are too small for any weight, without dropout and adapters.
[[nodiscard]] Recipe of_losses(Recipe recipe);

/// Steps enough for the loss scale to come down from one that overflows in the first, and a few more.
inline constexpr std::int64_t kOverflowSteps = 16;

/// Begins with a loss scale by which the largest element of `gradients` is beyond fp16 in whichever
/// micro-batch it is made, and never raises it.
[[nodiscard]] Recipe overflowing(Recipe recipe, const Tensors& gradients);

[[nodiscard]] Recipe with_strategy(Recipe recipe, ShardStrategy strategy, RecomputePolicy recompute);

/// Strategies other than the recipe's own.
[[nodiscard]] std::vector<ShardStrategy> other_strategies(const Recipe& recipe);

}  // namespace echelon::app
