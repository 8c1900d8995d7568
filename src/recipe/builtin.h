#pragma once
#include <span>
#include <string>
#include <string_view>

namespace echelon::recipe {

/// A recipe from the project's recipes/ folder. It is compiled into the library, so a copied binary needs no
/// other files.
struct BuiltinRecipe {
  std::string_view name;  ///< file name without .yaml
  std::string_view text;
};

/// All built-in recipes, sorted by name. Valid for the lifetime of the process.
[[nodiscard]] std::span<const BuiltinRecipe> builtin_recipes();

/// Looks a recipe up by name, with or without the suffix .yaml. Returns null if there is none.
[[nodiscard]] const BuiltinRecipe* find_builtin(std::string_view name);

/// What the recipe is for: its first comment line, without '#'.
[[nodiscard]] std::string summary(const BuiltinRecipe& recipe);

/// The built-in name most similar to `name`, or "" if none is similar enough.
[[nodiscard]] std::string nearest_builtin(const std::string& name);

}  // namespace echelon::recipe
