#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/load.h"

namespace echelon::recipe {

/// Returns the text of an included file. Throws Error if it cannot be read.
using ReadFile = std::function<std::string(const std::filesystem::path&)>;

/// load_recipe() for a text in memory. `name` appears in messages; `include:` paths are relative to its
/// folder. Throws Error(kUsage) as load_recipe() does.
[[nodiscard]] LoadedRecipe parse_recipe_text(const std::string& name, std::string_view text,
                                             const std::vector<std::string>& overrides,
                                             const ReadFile& read_include);

/// Parses the resolved recipe stored in a checkpoint. It was valid when it was stored, so conflicts between
/// keys are not checked again; `include:` is refused. Throws Error(kUsage) that names `name` if the text is
/// not a recipe of this version.
[[nodiscard]] Recipe parse_stored_recipe(const std::string& name, std::string_view text);

}  // namespace echelon::recipe
