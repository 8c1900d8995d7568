#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace echelon {

/// A recipe and where each of its values came from.
struct LoadedRecipe {
  Recipe recipe;
  std::map<std::string, std::string>
      origins;  ///< "optim.lr" -> "recipes/x.yaml:12:7", "default" or "command line"
  std::string
      which;  ///< which recipe was taken, for the log, where its argument leaves that open; else empty
};

/// Reads a recipe, its `include:` base and `key.path=value` overrides (in that order, later wins). `named` is
/// what a user names: a file, or else one that comes with Echelon (builtin.h).
/// Throws one Error(kUsage) whose text has a line for every fault found: "file:line:column: what, what was
/// expected, nearest valid key". Checks everything that needs no job: types, ranges, model arithmetic.
[[nodiscard]] LoadedRecipe load_recipe(const std::filesystem::path& named,
                                       const std::vector<std::string>& overrides);

/// Logs `which`, if there is something to tell.
void tell_which(const LoadedRecipe& loaded);

/// Checks the recipe against the number of ranks: batch, mesh of the hybrid strategies, partial gathering.
/// Throws one Error(kUsage) with a line for every fault, which names the nearest values that work.
void validate_for_size(const Recipe& recipe, int ranks);

/// The resolved recipe as YAML; load_recipe() of it gives the same recipe. With `origins` each line ends in a
/// comment.
[[nodiscard]] std::string to_yaml(const Recipe& recipe,
                                  const std::map<std::string, std::string>* origins = nullptr);

/// docs/recipe.md's tables and the JSON Schema for editors, both made from the one table the loader uses.
[[nodiscard]] std::string recipe_reference_markdown();
[[nodiscard]] std::string recipe_json_schema();

}  // namespace echelon
