#pragma once
#include "app/doctor/finding.h"
#include "recipe/recipe.h"

namespace echelon::app {

/// Quick checks that need no other rank, before a run reports its start: data, vocabulary, checkpoint.resume,
/// checkpoint.init_from and model.from. Throws the error that the run would throw later.
void check_early(const Recipe& recipe);

/// The checks of checkpoint.resume, checkpoint.init_from, model.from and the ends of text, as a finding of
/// `echelon doctor recipe`.
[[nodiscard]] doctor::Finding examine_initial_weights(const Recipe& recipe);

}  // namespace echelon::app
