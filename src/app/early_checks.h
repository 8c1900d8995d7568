#pragma once
#include "app/doctor/finding.h"
#include "recipe/recipe.h"

namespace echelon::app {

/// What takes a moment and needs no other rank, before a run says that it starts: data, vocabulary,
/// checkpoint.resume, checkpoint.init_from and model.from. Throws what the run would throw later.
void check_early(const Recipe& recipe);

/// What of it concerns checkpoints, as a finding of `echelon doctor recipe`.
[[nodiscard]] doctor::Finding examine_initial_weights(const Recipe& recipe);

}  // namespace echelon::app
