#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "app/commands.h"
#include "base/files/new_file.h"
#include "base/foreign_text.h"
#include "base/str.h"
#include "recipe/builtin.h"
#include "recipe/compare.h"
#include "recipe/load.h"

namespace echelon::app {
namespace {

const recipe::BuiltinRecipe& find(const std::string& name) {
  if (const recipe::BuiltinRecipe* found = recipe::find_builtin(name)) return *found;
  std::vector<std::string> names;
  for (const recipe::BuiltinRecipe& recipe : recipe::builtin_recipes()) names.emplace_back(recipe.name);
  const std::string near = recipe::nearest_builtin(name);
  throw Error(Code::kUsage,
              str("recipes: no recipe '", name, "'; ",
                  near.empty() ? "there are: " + join(names, ", ") : str("did you mean ", near, "?")));
}

void list() {
  std::size_t width = 0;
  for (const recipe::BuiltinRecipe& recipe : recipe::builtin_recipes())
    width = std::max(width, recipe.name.size());
  for (const recipe::BuiltinRecipe& recipe : recipe::builtin_recipes()) {
    std::cout << recipe.name << std::string(width + 2 - recipe.name.size(), ' ') << recipe::summary(recipe)
              << '\n';
  }
}

void copy(const std::string& name, const std::string& destination) {
  const recipe::BuiltinRecipe& recipe = find(name);
  fs::Path path = destination;
  if (std::filesystem::is_directory(path)) path /= str(recipe.name, ".yaml");
  if (std::filesystem::exists(path)) {
    throw Error(Code::kUsage,
                str("recipes cp: '", path.string(), "' exists and is not overwritten; name another file"));
  }
  fs::NewFile file(path, Code::kEnvironment);
  file.write(0, std::as_bytes(std::span(recipe.text)));
  file.close();
  file.keep();
  std::cout << path.string() << '\n';
}

void print_differences(const std::string& a, const std::string& b, bool as_json) {
  const std::vector<recipe::Change> changes =
      recipe::changes(load_recipe(a, {}).recipe, load_recipe(b, {}).recipe);
  if (as_json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const recipe::Change& change : changes)
      all.push_back({{"key", change.key}, {"a", change.then}, {"b", change.now}});
    std::cout << json_text(all) << '\n';
    return;
  }
  if (changes.empty()) std::cout << "# no key that they use differs\n";
  for (const recipe::Change& change : changes)
    std::cout << change.key << ": " << change.then << " -> " << change.now << '\n';
}

}  // namespace

void add_recipes(CLI::App& app, int&) {
  struct Arguments {
    std::string name;
    std::string destination;
    std::string other;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "recipes", "List, show and copy the recipes that come with Echelon; compare recipes");
  command->require_subcommand(1);
  command->add_subcommand("ls", "Names, and what each is for")->callback([] { list(); });
  CLI::App* show = command->add_subcommand("show", "Print a recipe");
  show->add_option("name", arguments->name, "Recipe name, see `recipes ls`")->required();
  show->callback([arguments] { std::cout << find(arguments->name).text; });
  CLI::App* cp = command->add_subcommand("cp", "Copy a recipe to a new file or into a folder");
  cp->add_option("name", arguments->name, "Recipe name, see `recipes ls`")->required();
  cp->add_option("destination", arguments->destination, "New file, or a folder")->required();
  cp->callback([arguments] { copy(arguments->name, arguments->destination); });
  CLI::App* diff = command->add_subcommand(
      "diff",
      "Print the keys whose values differ between two recipes, once resolved and if one of them uses them");
  diff->add_option("recipe", arguments->name, "YAML file, or a name that `echelon recipes ls` prints")
      ->required();
  diff->add_option("other_recipe", arguments->other, "Another")->required();
  diff->add_flag("--json", arguments->json, "A JSON list of objects: key, a, b");
  diff->callback([arguments] { print_differences(arguments->name, arguments->other, arguments->json); });
}

}  // namespace echelon::app
