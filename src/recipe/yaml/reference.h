#pragma once
#include <string>
#include <string_view>

namespace echelon::recipe {

/// docs/recipe.md with the text between its two markers replaced by recipe_reference_markdown().
/// Throws Error(kUsage) when a marker is missing.
[[nodiscard]] std::string with_reference(std::string_view document);

}  // namespace echelon::recipe
