#pragma once
#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace echelon::recipe {

/// Something wrong between keys that are each right by themselves.
struct Conflict {
  std::vector<std::string> keys;  ///< the keys involved, the one to change first
  std::string text;               ///< one line: what is wrong, what was expected, what to do
};

/// Everything that can be said before the number of ranks is known: model arithmetic, files that must be
/// named, schedule, batch, sizes that overflow, options that contradict each other.
[[nodiscard]] std::vector<Conflict> conflicts(const Recipe& recipe);

}  // namespace echelon::recipe
