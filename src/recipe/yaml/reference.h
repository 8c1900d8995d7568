#pragma once
#include <string>
#include <string_view>

namespace echelon::recipe {

/// Returns docs/recipe.md (`document`) with the text between its two markers replaced by
/// recipe_reference_markdown(). Throws Error(kUsage) if a marker is missing.
[[nodiscard]] std::string with_reference(std::string_view document);

}  // namespace echelon::recipe
