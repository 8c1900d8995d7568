#pragma once
#include <cstdint>
#include <optional>

#include "recipe/recipe.h"

namespace echelon::app::doctor {

/// What a recipe comes to on `ranks` ranks, by arithmetic alone: neither weights nor libtorch are needed.
/// Padding of slices (at most 63 elements a unit and rank) is left out.
struct RecipeSize {
  std::int64_t parameters = 0;
  std::uint64_t checkpoint_bytes = 0;  ///< of one step, over all ranks: weights, optimizer, averaged weights
  std::uint64_t rank_bytes = 0;        ///< what a rank keeps all the time: its part of those and of gradients
  std::uint64_t staging_bytes = 0;     ///< of a rank, for saves beside training; 0 where training waits
};

/// Nothing where the model has more parameters than 64 bits count.
[[nodiscard]] std::optional<RecipeSize> size_of(const Recipe& recipe, int ranks, int ranks_per_node);

/// Steps whose checkpoints lie in the run folder at the same time, the one being written included.
[[nodiscard]] std::int64_t checkpoints_kept(const Recipe& recipe);

}  // namespace echelon::app::doctor
