#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/load.h"

namespace echelon::recipe {

/// Returns the text of an included file or throws Error.
using ReadFile = std::function<std::string(const std::filesystem::path&)>;

/// load_recipe() for a text in memory. `name` stands in messages and is what `include:` paths are relative
/// to.
[[nodiscard]] LoadedRecipe parse_recipe_text(const std::string& name, std::string_view text,
                                             const std::vector<std::string>& overrides,
                                             const ReadFile& read_include);

/// The resolved recipe that a checkpoint holds. It was sound when it was stored: what its keys say against
/// each other is not checked again, and it includes nothing. Throws Error(kUsage), naming `name`, for a text
/// that is no recipe of this version.
[[nodiscard]] Recipe parse_stored_recipe(const std::string& name, std::string_view text);

}  // namespace echelon::recipe
