#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace echelon::report {

/// A key of a resolved recipe.
struct RecipeValue {
  std::string key;     ///< "optim.lr"
  std::string value;   ///< as YAML
  std::string origin;  ///< "default", "recipes/x.yaml:12:7"; empty: not written beside it
};

/// Every value of a recipe.yaml, whichever version wrote it; what cannot be read is left out. `complete`:
/// false when that was so.
[[nodiscard]] std::vector<RecipeValue> recipe_values(std::string_view yaml, bool& complete);

/// A key whose values differ between recipes; a value for each recipe, "" where it has none.
struct Difference {
  std::string key;
  std::vector<std::string> values;
};
[[nodiscard]] std::vector<Difference> differences(const std::vector<std::vector<RecipeValue>>& recipes);

}  // namespace echelon::report
