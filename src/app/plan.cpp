#include <memory>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/engine/engine.h"
#include "app/model_check.h"
#include "app/plugin.h"
#include "base/terminal/command_line.h"

namespace echelon::app {
namespace {

struct PlanArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  int nodes = 1;
  int tasks_per_node = 1;
  bool units = false;
};

int plan(const PlanArguments& arguments) {
  LoadedRecipe loaded = load_recipe(arguments.recipe, arguments.overrides);
  tell_which(loaded);
  check_against_model(loaded);
  const int ranks = arguments.nodes * arguments.tasks_per_node;
  validate_for_size(loaded.recipe, ranks);
  return engine_function<PlanFunction>("echelon_engine_plan")({.loaded = std::move(loaded),
                                                               .ranks = ranks,
                                                               .ranks_per_node = arguments.tasks_per_node,
                                                               .units = arguments.units});
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = app.add_subcommand(
      "plan",
      "Show what a recipe keeps in each rank's memory and how it is cut into units; starts no training");
  command->add_option("recipe", arguments->recipe, "YAML file, or a name that `echelon recipes ls` prints")
      ->required();
  command->add_option("overrides", arguments->overrides,
                      "key.path=value, such as shard.strategy=shard_grad_op");
  command->add_option("--nodes", arguments->nodes, "Nodes of the job (default 1)")
      ->check(in_range(1, 100'000));
  command
      ->add_option("--tasks-per-node,--gpus-per-node", arguments->tasks_per_node, "Ranks on each (default 1)")
      ->check(in_range(1, 1024));
  command->add_flag("--units", arguments->units, "Also the tree of units with parameters and bytes");
  command->callback([arguments, &status] { status = plan(*arguments); });
}

}  // namespace echelon::app
