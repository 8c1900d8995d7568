#pragma once
#include "recipe/load.h"

namespace echelon::app {

/// Checks what load_recipe() cannot: name patterns that match no part of the model. Loads the engine, but
/// only for recipes with patterns. Without an engine, warns that they were not checked. Throws one
/// Error(kUsage) with a line "file:line:column: key: what" for each fault.
void check_against_model(const LoadedRecipe& loaded);

}  // namespace echelon::app
