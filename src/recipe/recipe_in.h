#pragma once
#include <filesystem>

namespace echelon::recipe {

/// Returns the path of a folder's recipe.yaml, for the folders that checkpoint.init_from accepts: in a run or
/// step folder itself, else in the newest committed step folder below. The file may not exist.
[[nodiscard]] std::filesystem::path recipe_in(const std::filesystem::path& folder);

}  // namespace echelon::recipe
