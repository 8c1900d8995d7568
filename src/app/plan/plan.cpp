#include <iostream>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/model_check.h"
#include "app/plan/fit.h"
#include "app/plan/planner.h"
#include "base/files/new_file.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "base/terminal/standard_output.h"

namespace echelon::app {
namespace {

struct PlanArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  PlanTarget target;
  int nodes = 1;
  bool units = false;
  bool json = false;
  bool operations = false;
  bool fit = false;
  double tokens = 0;
  double days = 0;
  std::string timeline;
  std::string picture;
};

void write(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  fs::publish_file(path, text, Code::kEnvironment);
}

/// As `echelon submit`, which refuses a recipe that does not fit.
int status_of(bool fits) {
  return fits ? 0 : static_cast<int>(Code::kUsage);
}

void require_time(const Plan& plan, const std::string& option, const std::string& value) {
  if (value.empty() || plan.outlook.time) return;
  throw Error(Code::kUsage, option,
              ": the time of a step is unknown; expected --gpu with a device's profile");
}

int fit(const PlanArguments& arguments, const Planner& planner) {
  const FitResult result = find_fit(planner, [&](const std::vector<std::string>& added) {
    std::vector<std::string> overrides = arguments.overrides;
    overrides.insert(overrides.end(), added.begin(), added.end());
    return load_recipe(arguments.recipe, overrides).recipe;
  });
  std::cout << (arguments.json ? to_json(result) : describe(result));
  finish_standard_output();
  return status_of(!result.fitting.empty());
}

int plan(const PlanArguments& arguments) {
  for (const std::string& output : {arguments.timeline, arguments.picture})
    fs::require_output(output, arguments.recipe);
  LoadedRecipe loaded = load_recipe(arguments.recipe, arguments.overrides);
  if (!arguments.json) tell_which(loaded);
  check_against_model(loaded);
  PlanTarget target = arguments.target;
  target.job.ranks = arguments.nodes * target.job.ranks_per_node;
  const Planner planner(target);
  if (arguments.fit) return fit(arguments, planner);
  const Plan made = arguments.tokens > 0 ? nodes_for(planner, loaded.recipe, arguments.tokens, arguments.days)
                                         : planner.plan(loaded.recipe);
  require_time(made, "--timeline", arguments.timeline);
  require_time(made, "--picture", arguments.picture);
  if (made.outlook.time) {
    write(arguments.timeline, forecast::perfetto_trace(made.rehearsed, made.outlook.time->timeline));
    write(arguments.picture, forecast::picture(made.title, made.rehearsed, made.outlook));
  }
  std::cout << (arguments.json
                    ? forecast::json_report(made.title, made.rehearsed, made.options, made.outlook)
                    : forecast::text_report(made.title, made.rehearsed, made.options, made.outlook));
  if (arguments.units && !arguments.json) {
    for (const std::string& line : made.rehearsed.unit_tree) std::cout << line << '\n';
  }
  if (arguments.operations && !arguments.json) {
    require_time(made, "--operations", "yes");
    std::cout << forecast::operations_table(made.outlook.time->timeline);
  }
  finish_standard_output();
  return status_of(made.outlook.fits());
}

void add_machine_options(CLI::App& command, PlanArguments& arguments) {
  command.add_option("--nodes", arguments.nodes, "Nodes of the job (default 1)")->check(in_range(1, 100'000));
  command
      .add_option("--gpus-per-node,--tasks-per-node", arguments.target.job.ranks_per_node,
                  "Ranks on each (default 1)")
      ->check(in_range(1, 1024));
  command.add_option(
      "--gpu", arguments.target.gpu,
      str("cpu (default), a device (", join(forecast::device_names(), ", "), "), or a profile's .json file"));
  command.add_option("--network", arguments.target.network,
                     str("Between nodes: ", join(forecast::network_names(), ", "),
                         ", or a profile's .json file (default: what such machines usually have)"));
  add_bytes(command, "--memory", arguments.target.memory_bytes,
            "Memory of a rank, such as 16GiB (default: the device's; cpu: no limit)");
  add_bytes(command, "--disk", arguments.target.disk_bytes_per_s,
            "Bytes that a node writes per second, such as 2GB (default 1GB)");
  command
      .add_option("--node-days-to-failure", arguments.target.node_days_to_failure,
                  "Mean days that a node runs without a failure: adds what failures cost")
      ->check(above_zero());
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
  const auto [command, arguments] = add_command<PlanArguments>(
      app, "plan",
      "Predict a run: memory, traffic, time of a step; carries out steps without contents, trains nothing",
      [&status](const PlanArguments& given) { status = plan(given); });
  command.add_option("recipe", arguments.recipe, "YAML file, or a name that `echelon recipes ls` prints")
      ->required();
  command.add_option("overrides", arguments.overrides,
                     "key.path=value, such as shard.strategy=shard_grad_op");
  add_machine_options(command, arguments);
  CLI::Option* fit = command.add_flag("--fit", arguments.fit,
                                      "Search for changes of the recipe with which it fits, best first");
  command.add_flag("--units", arguments.units, "Also the tree of units; --json always has it")->excludes(fit);
  command
      .add_flag("--operations", arguments.operations,
                "Also a table of operations: FLOPs, bytes, time, and what limits them")
      ->excludes(fit);
  add_json(command, arguments.json);
  command.footer(
      "Exits with 2 if the recipe does not fit into a rank's memory; with --fit, if no change does.");
  CLI::Option* tokens =
      command
          .add_option("--tokens", arguments.tokens,
                      "Find the fewest nodes, among --nodes and its doublings, that train on so many tokens")
          ->excludes(fit)
          ->check(above_zero());
  CLI::Option* days =
      command.add_option("--days", arguments.days, "... within so many days")->check(above_zero());
  tokens->needs(days);
  days->needs(tokens);
  command
      .add_option("--timeline", arguments.timeline, "Write the lanes of a step to FILE, for ui.perfetto.dev")
      ->excludes(fit);
  command.add_option("--picture", arguments.picture, "Write them to FILE as a picture (SVG)")->excludes(fit);
}

}  // namespace echelon::app
