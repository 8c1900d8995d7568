#pragma once
#include <cstdint>
#include <optional>

#include "recipe/recipe.h"

namespace echelon::app::doctor {

/// Sizes of a run, computed from the recipe: needs neither weights nor libtorch. Excludes the padding of
/// slices (at most 63 elements per unit and rank).
struct RecipeSize {
  std::uint64_t checkpoint_bytes = 0;  ///< of one step, all ranks: weights, optimizer state, averaged weights
  std::uint64_t rank_bytes = 0;        ///< persistent per rank: its share of that state and of the gradients
  std::uint64_t staging_bytes = 0;     ///< per rank, for saves during training; 0 if training waits for saves
};

/// Returns nothing if the number of parameters exceeds 64 bits.
[[nodiscard]] std::optional<RecipeSize> size_of(const Recipe& recipe, int ranks, int ranks_per_node);

/// The largest number of checkpoints in the run folder at one time, including the one being written. Nothing
/// if the recipe sets no bound: how many there will be depends on the data or on time.
[[nodiscard]] std::optional<std::int64_t> checkpoints_kept(const Recipe& recipe);

}  // namespace echelon::app::doctor
