#pragma once
#include "recipe/recipe.h"
#include "run/run_folder.h"

namespace echelon::app {

/// What checkpoint.consolidate asks for when a run has finished: whole tensors of the last checkpoint, or
/// with checkpoint.keep_best of the best, made by the echelon-ckpt beside this program in a process of its
/// own with bounded memory. Does nothing when the output is there already. Called by one rank. Throws Error.
void consolidate_run(const Recipe& recipe, const std::filesystem::path& root);

}  // namespace echelon::app
