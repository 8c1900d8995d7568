#pragma once
#include <memory>

#include "data/loader.h"
#include "recipe/recipe.h"

namespace echelon::app {

/// Samples without contents, each as long as the recipe allows. Synthetic data, which need no files, are the
/// same as in a run.
[[nodiscard]] std::unique_ptr<Loader> full_samples(const Recipe& recipe);

}  // namespace echelon::app
