#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/commands.h"
#include "base/files/new_file.h"
#include "base/str.h"
#include "recipe/builtin.h"

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

/// The first comment line of the recipe, without '#'.
std::string summary(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::size_t start = line.find_first_not_of("# ");
  return line.starts_with('#') && start != std::string_view::npos ? std::string(line.substr(start)) : "";
}

void list() {
  std::size_t width = 0;
  for (const recipe::BuiltinRecipe& recipe : recipe::builtin_recipes())
    width = std::max(width, recipe.name.size());
  for (const recipe::BuiltinRecipe& recipe : recipe::builtin_recipes()) {
    std::cout << recipe.name << std::string(width + 2 - recipe.name.size(), ' ') << summary(recipe.text)
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

}  // namespace

void add_recipes(CLI::App& app, int&) {
  struct Arguments {
    std::string name;
    std::string destination;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("recipes", "List, show and copy the recipes that come with Echelon");
  command->require_subcommand(1);
  command->add_subcommand("ls", "Names, and what each is for")->callback([] { list(); });
  CLI::App* show = command->add_subcommand("show", "Print a recipe");
  show->add_option("name", arguments->name, "Recipe name, see `recipes ls`")->required();
  show->callback([arguments] { std::cout << find(arguments->name).text; });
  CLI::App* cp = command->add_subcommand("cp", "Copy a recipe to a new file or into a folder");
  cp->add_option("name", arguments->name, "Recipe name, see `recipes ls`")->required();
  cp->add_option("destination", arguments->destination, "New file, or a folder")->required();
  cp->callback([arguments] { copy(arguments->name, arguments->destination); });
}

}  // namespace echelon::app
