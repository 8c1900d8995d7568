#pragma once
#include "recipe/recipe.h"
#include "run/run_folder.h"

namespace echelon::app {

/// Does what checkpoint.consolidate requests at the end of a run: exports whole tensors of the newest
/// checkpoint, or with checkpoint.keep_best of the best one. Runs the echelon-ckpt beside this program as a
/// separate process with bounded memory. Does nothing if the output exists. Call on one rank only. Throws
/// Error.
void consolidate_run(const Recipe& recipe, const std::filesystem::path& root);

}  // namespace echelon::app
