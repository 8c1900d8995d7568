#pragma once
#include <string>
#include <vector>

#include "base/terminal/completion.h"

namespace echelon::app {

/// The values of echelon's arguments for completion: recipes, a recipe's keys and their values, run folders.
/// Empty where any file may stand.
[[nodiscard]] std::vector<Candidate> argument_values(const std::string& name, const std::string& begun);

}  // namespace echelon::app
