#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/recipe.h"

namespace echelon {

/// A recipe and the origin of each value.
struct LoadedRecipe {
  Recipe recipe;
  /// "optim.lr" -> "recipes/x.yaml:12:7", "default" or "command line".
  std::map<std::string, std::string> origins;
  /// For the log: which recipe was read, if the argument leaves that open; else empty.
  std::string which;
};

/// Reads the recipe `named`: a file, or if there is none of this name, a built-in recipe (builtin.h).
/// Values of the file override those of its `include:` base; `key.path=value` overrides override both.
/// Checks everything that needs no job: types, ranges, model arithmetic.
/// Throws one Error(kUsage) with a line for each fault: "file:line:column: what is wrong, what was expected,
/// nearest valid key".
[[nodiscard]] LoadedRecipe load_recipe(const std::filesystem::path& named,
                                       const std::vector<std::string>& overrides);

/// Logs `which` unless it is empty.
void tell_which(const LoadedRecipe& loaded);

/// Checks what depends on the number of ranks: batch, mesh of the hybrid strategies, partial gathering.
/// Throws one Error(kUsage) with a line for each fault that names the nearest valid values.
void validate_for_size(const Recipe& recipe, int ranks);

/// Returns the numbers of nodes below `nodes`, largest first, with which a run may go on after it lost nodes:
/// cluster.shrink allows it, its copies of the state keep their size, and the batch can be divided. Usually
/// empty.
[[nodiscard]] std::vector<std::int64_t> fewer_nodes(const Recipe& recipe, std::int64_t nodes,
                                                    std::int64_t ranks_per_node);

/// The resolved recipe as YAML. load_recipe() of this text gives the same recipe. With `origins`, each line
/// ends with a comment that names the value's origin.
[[nodiscard]] std::string to_yaml(const Recipe& recipe,
                                  const std::map<std::string, std::string>* origins = nullptr);

/// The first line of a resolved recipe that is written for a job and that nobody edits. load_recipe() reads
/// the origins of its values from the comments.
inline constexpr std::string_view kKeepsOrigins = "# The comment behind a value says where it is from.\n";

/// The origins that a text of to_yaml() names behind the values, by line.
[[nodiscard]] std::map<int, std::string> named_origins(std::string_view yaml);

}  // namespace echelon
