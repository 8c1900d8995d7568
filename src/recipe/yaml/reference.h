#pragma once
#include <string>
#include <string_view>

/// The tables of docs/recipe.md, and the JSON Schema for editors. Both are generated from the table of keys
/// that the loader uses (keys/keys.h).
namespace echelon::recipe {

[[nodiscard]] std::string reference_markdown();
[[nodiscard]] std::string json_schema();

/// Returns docs/recipe.md (`document`) with the text between its two markers replaced by
/// reference_markdown(). Throws Error(kUsage) if a marker is missing.
[[nodiscard]] std::string with_reference(std::string_view document);

}  // namespace echelon::recipe
