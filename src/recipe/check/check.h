#pragma once
#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace echelon::recipe {

/// A conflict between keys whose values are each valid on their own.
struct Conflict {
  std::vector<std::string> keys;  ///< the keys involved; the first is the one to change
  std::string text;               ///< one line: what is wrong, what was expected, what to do
};

/// All conflicts that can be found without the number of ranks: model arithmetic, missing file names,
/// schedule, batch, sizes that overflow, contradicting options. Reads no files.
[[nodiscard]] std::vector<Conflict> conflicts(const Recipe& recipe);

}  // namespace echelon::recipe
