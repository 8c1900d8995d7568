#pragma once
#include "recipe/load.h"

namespace echelon::app {

/// Checks what load_recipe() cannot see, because only the model's parts tell: patterns that name none of
/// them. Loads the engine, for recipes with patterns alone; where there is no engine, a warning says that
/// they were not checked. Throws one Error(kUsage) with a line "file:line:column: key: what" for every fault.
void check_against_model(const LoadedRecipe& loaded);

}  // namespace echelon::app
