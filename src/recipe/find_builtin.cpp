
#include "base/str.h"
#include "recipe/builtin.h"

namespace echelon::recipe {

const BuiltinRecipe* find_builtin(std::string_view name) {
  if (name.ends_with(".yaml")) name.remove_suffix(5);
  for (const BuiltinRecipe& recipe : builtin_recipes())
    if (recipe.name == name) return &recipe;
  return nullptr;
}

std::string summary(const BuiltinRecipe& recipe) {
  const std::string_view line = recipe.text.substr(0, recipe.text.find('\n'));
  const std::size_t start = line.find_first_not_of("# ");
  return line.starts_with('#') && start != line.npos ? std::string(line.substr(start)) : "";
}

std::string nearest_builtin(const std::string& name) {
  return nearest(name, mapped<std::string>(builtin_recipes(), &BuiltinRecipe::name));
}

}  // namespace echelon::recipe
