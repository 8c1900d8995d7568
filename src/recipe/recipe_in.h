#pragma once
#include <filesystem>

namespace echelon::recipe {

/// The recipe.yaml that a folder stands for, as checkpoint.init_from takes folders: that of a run or of a
/// step folder, or of the newest committed step folder in it. It may not exist.
[[nodiscard]] std::filesystem::path recipe_in(const std::filesystem::path& folder);

}  // namespace echelon::recipe
