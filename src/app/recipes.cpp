#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/commands.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "base/foreign_text.h"
#include "base/number.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "recipe/builtin.h"
#include "recipe/compare.h"
#include "recipe/load.h"
#include "recipe/translate/translate.h"

namespace echelon::app {
namespace {

const recipe::BuiltinRecipe& find(const std::string& name) {
  if (const recipe::BuiltinRecipe* found = recipe::find_builtin(name)) return *found;
  const auto names = mapped<std::string>(recipe::builtin_recipes(), &recipe::BuiltinRecipe::name);
  const std::string near = recipe::nearest_builtin(name);
  throw Error(Code::kUsage, "recipes: no recipe '", name, "'; ",
              near.empty() ? "there are: " + join(names, ", ") : str("did you mean ", near, "?"));
}

void list() {
  std::size_t width = 0;
  for (const recipe::BuiltinRecipe& recipe : recipe::builtin_recipes())
    width = std::max(width, recipe.name.size());
  for (const recipe::BuiltinRecipe& recipe : recipe::builtin_recipes()) {
    std::cout << padded(std::string(recipe.name), width + 2) << recipe::summary(recipe) << '\n';
  }
}

void copy(const std::string& name, const std::string& destination) {
  const recipe::BuiltinRecipe& recipe = find(name);
  fs::Path path = destination;
  if (std::filesystem::is_directory(path)) path /= str(recipe.name, ".yaml");
  if (std::filesystem::exists(path)) {
    throw Error(Code::kUsage, "recipes cp: '", path.string(),
                "' exists and is not overwritten; name another file");
  }
  fs::NewFile file(path, Code::kEnvironment);
  file.append(recipe.text);
  file.close();
  file.keep();
  std::cout << path.string() << '\n';
}

void print_differences(const std::string& a, const std::string& b, bool json) {
  const std::vector<recipe::Change> changes =
      recipe::changes(load_recipe(a, {}).recipe, load_recipe(b, {}).recipe);
  if (json) {
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

/// A remark has no line of its own in the recipe, so it is above.
void translate_file(const std::string& name, const std::string& output, int ranks) {
  constexpr std::uint64_t kMaxFileBytes = 1 << 20;
  const std::vector<recipe::Setting> settings =
      recipe::read_settings(name, fs::read_file(name, kMaxFileBytes, Code::kUsage));
  const recipe::Trainer trainer = recipe::trainer_of(name, settings);
  const recipe::Translation translation = recipe::translate(trainer, settings, ranks);
  std::string heading = str("# From ", printable(name), ", a configuration of ", word_of(trainer),
                            ". Comments name the settings there.\n# Not translated:\n");
  for (const std::string& remark : translation.remarks) heading += str("#   ", remark, '\n');
  const std::string recipe = recipe::yaml_of(translation.lines, heading);
  if (output.empty()) {
    std::cout << recipe;
    return;
  }
  if (std::filesystem::exists(std::filesystem::symlink_status(output)))
    throw Error(Code::kUsage, "recipes from: '", printable(output), "' exists and is not overwritten");
  fs::publish_file(output, recipe, Code::kUsage);
  std::cout << output << '\n';
}

}  // namespace

void add_recipes(CLI::App& app, int&) {
  struct Arguments {
    std::string name;
    std::string destination;
    std::string other;
    bool json = false;
    int ranks = 1;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("recipes",
                                         "List, show and copy the recipes that come with Echelon; compare "
                                         "recipes; translate other trainers' configurations");
  command->require_subcommand(1);
  command->add_subcommand("ls", "Names, and what each is for")->callback([] { list(); });
  CLI::App* show = command->add_subcommand("show", "Print a recipe");
  show->add_option("name", arguments->name, "Recipe name, see `recipes ls`")->required();
  show->callback([arguments] { std::cout << find(arguments->name).text; });
  CLI::App* cp = command->add_subcommand("cp", "Copy a recipe to a new file or into a folder");
  cp->add_option("name", arguments->name, "Recipe name, see `recipes ls`")->required();
  cp->add_option("destination", arguments->destination, "New file, or a folder")->required();
  cp->callback([arguments] { copy(arguments->name, arguments->destination); });
  CLI::App* from = command->add_subcommand("from",
                                           "Translate a configuration of axolotl, LLaMA-Factory, NeMo "
                                           "AutoModel, torchtitan or transformers into a recipe");
  from->add_option("file", arguments->name, "YAML, JSON, or TOML (torchtitan)")->required();
  from->add_option("-o,--output", arguments->destination, "New file (default: standard output)");
  from->add_option("--ranks", arguments->ranks,
                   "Ranks that it is for, where its batch is that of a rank (default 1)")
      ->check(in_range(1, 1'000'000));
  from->callback([arguments] { translate_file(arguments->name, arguments->destination, arguments->ranks); });
  CLI::App* diff = command->add_subcommand(
      "diff",
      "Print the keys whose values differ between two recipes, once resolved and if one of them uses them");
  diff->add_option("recipe", arguments->name, "YAML file, or a name that `echelon recipes ls` prints")
      ->required();
  diff->add_option("other_recipe", arguments->other, "Another")->required();
  add_json(*diff, arguments->json);
  diff->callback([arguments] { print_differences(arguments->name, arguments->other, arguments->json); });
}

}  // namespace echelon::app
