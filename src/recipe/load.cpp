#include "recipe/load.h"

#include "base/error.h"
#include "base/files/fs.h"
#include "base/log.h"
#include "base/str.h"
#include "recipe/builtin.h"
#include "recipe/parse.h"

namespace echelon {
namespace {

constexpr std::uint64_t kMaxFileBytes = 1 << 20;

std::string read(const std::filesystem::path& file) {
  return fs::read_file(file, kMaxFileBytes, Code::kUsage);
}

}  // namespace

LoadedRecipe load_recipe(const std::filesystem::path& named, const std::vector<std::string>& overrides) {
  const std::string name = named.string();
  const recipe::BuiltinRecipe* builtin = recipe::find_builtin(name);
  std::error_code ignored;
  const bool file = std::filesystem::exists(named, ignored) && !std::filesystem::is_directory(named, ignored);
  // A file overrides a built-in recipe of the same name; `which` then says so.
  if (builtin != nullptr && !file) {
    LoadedRecipe loaded = recipe::parse_recipe_text(str(builtin->name, " (comes with Echelon)"),
                                                    builtin->text, overrides, read);
    loaded.which = str("recipe '", builtin->name, "', which comes with Echelon");
    return loaded;
  }
  std::string text;
  try {
    text = read(named);
  } catch (const Error& error) {
    const std::string near = recipe::nearest_builtin(name);
    throw Error(Code::kUsage, "recipe: ", error.what(), near.empty() ? "" : str("; did you mean ", near, "?"),
                "; `echelon recipes ls` lists the recipes that come with Echelon");
  }
  LoadedRecipe loaded = recipe::parse_recipe_text(name, text, overrides, read);
  if (builtin != nullptr)
    loaded.which = str("recipe: the file '", name, "', not the recipe of that name that comes with Echelon");
  return loaded;
}

void tell_which(const LoadedRecipe& loaded) {
  if (!loaded.which.empty()) log::info("echelon: " + loaded.which);
}

}  // namespace echelon
