#include "recipe/recipe_in.h"

#include <algorithm>

namespace echelon::recipe {

std::filesystem::path recipe_in(const std::filesystem::path& folder) {
  constexpr const char* kName = "recipe.yaml";
  std::error_code ignored;
  if (std::filesystem::exists(folder / kName, ignored)) return folder / kName;
  std::filesystem::path newest;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    // Names of step folders are in the order of their steps.
    if (name.starts_with("step-") && std::filesystem::exists(entry.path() / "COMMIT", ignored))
      newest = std::max(newest, entry.path());
  }
  return (newest.empty() ? folder : newest) / kName;
}

}  // namespace echelon::recipe
