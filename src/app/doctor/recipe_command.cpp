#include "app/doctor/checks/recipe_checks.h"
#include "app/doctor/commands.h"
#include "app/doctor/report.h"
#include "app/early_checks.h"
#include "app/model_check.h"
#include "base/error.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "recipe/load.h"

namespace echelon::app::doctor {
namespace {

struct RecipeArguments {
  CommonArguments common;
  std::string recipe;
  std::vector<std::string> overrides;
  int nodes = 1;
  int ranks_per_node = 1;
  [[nodiscard]] int ranks() const { return nodes * ranks_per_node; }
};

constexpr std::uint64_t kFolderProbeBytes = std::uint64_t{16} << 20;

void examine(const RecipeArguments& arguments, const Recipe& recipe, Report& report) {
  const int ranks_per_node = arguments.ranks_per_node;
  report.add(ok("recipe", str("'", arguments.recipe, "' is valid on ", counted(arguments.ranks(), "rank"))));
  report.add(check_data(recipe));
  report.add(check_validation_data(recipe));
  report.add(check_tokenizer(recipe));
  report.add(examine_initial_weights(recipe));
  const FolderFacts folder = probe_folder(recipe.run.dir, kFolderProbeBytes);
  report.add(judge_folder(folder, arguments.nodes > 1));
  const Gpus gpus = ask_gpus();
  report.add(check_devices(recipe, ranks_per_node, gpus));
  const std::optional<RecipeSize> size = size_of(recipe, arguments.ranks(), ranks_per_node);
  if (!size) return report.add(uncountable());
  report.add(check_room(recipe, *size, folder));
  report.add(check_memory(recipe, *size, ranks_per_node, Machine(arguments.common.root), gpus));
}

void doctor_recipe(const RecipeArguments& arguments) {
  Report report("recipe");
  try {
    const LoadedRecipe loaded = load_recipe(arguments.recipe, arguments.overrides);
    tell_which(loaded);
    check_against_model(loaded);
    const Recipe& recipe = loaded.recipe;
    validate_for_size(recipe, arguments.ranks());
    examine(arguments, recipe, report);
  } catch (const Error& error) {
    if (error.code() != Code::kUsage) throw;
    for (const std::string& line : split(error.what(), '\n'))
      report.add(fault("recipe", line, "correct the recipe; docs/recipe.md lists every key"));
  }
  report.finish(arguments.common.json);
}

}  // namespace

void add_common(CLI::App& command, CommonArguments& arguments) {
  add_json(command, arguments.json);
  command.add_option("--root", arguments.root, "Read the machine's files below this folder, not below /")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
}

void add_recipe(CLI::App& doctor) {
  const auto [command, arguments] = add_command<RecipeArguments>(
      doctor, "recipe",
      "Check that a recipe can be trained here: its data, tokenizer, run folder, memory; no cluster",
      doctor_recipe);
  command.add_option("recipe", arguments.recipe, "YAML file, or a name that `echelon recipes ls` prints")
      ->required();
  command.add_option("overrides", arguments.overrides, "key.path=value, as for echelon train");
  command.add_option("--nodes", arguments.nodes, "Nodes of the job")
      ->check(in_range(1, 100'000))
      ->capture_default_str();
  command.add_option("--tasks-per-node", arguments.ranks_per_node, "Ranks on each")
      ->check(in_range(1, 1024))
      ->capture_default_str();
  add_common(command, arguments.common);
}

}  // namespace echelon::app::doctor
