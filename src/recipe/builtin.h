#pragma once
#include <span>
#include <string>
#include <string_view>

namespace echelon::recipe {

/// A recipe of the project's recipes/ folder, carried inside the library so that a copied binary has it too.
struct BuiltinRecipe {
  std::string_view name;  ///< file name without .yaml
  std::string_view text;
};

/// In the order of their names. Lives as long as the process.
[[nodiscard]] std::span<const BuiltinRecipe> builtin_recipes();

/// By its name, with .yaml behind it or not; null: there is none.
[[nodiscard]] const BuiltinRecipe* find_builtin(std::string_view name);

/// The name nearest to `name`, or "" when none is near enough to be meant.
[[nodiscard]] std::string nearest_builtin(const std::string& name);

}  // namespace echelon::recipe
