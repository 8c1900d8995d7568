#include "recipe/load.h"

#include "base/error.h"
#include "base/fs.h"
#include "base/str.h"
#include "recipe/parse.h"

namespace echelon {
namespace {

constexpr std::uint64_t kMaxFileBytes = 1 << 20;

std::string read(const std::filesystem::path& file) {
  return fs::read_file(file, kMaxFileBytes, Code::kUsage);
}

}  // namespace

LoadedRecipe load_recipe(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  std::string text;
  try {
    text = read(file);
  } catch (const Error& error) {
    throw Error(Code::kUsage, str("recipe: ", error.what(),
                                  "; `echelon recipes ls` lists the recipes that come with Echelon"));
  }
  return recipe::parse_recipe_text(file.string(), text, overrides, read);
}

}  // namespace echelon
