#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/model_check.h"
#include "base/error.h"
#include "base/foreign_text.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "recipe/keys/keys.h"
#include "recipe/load.h"
#include "recipe/yaml/json_value.h"
#include "recipe/yaml/reference.h"
#include "shapes/lora.h"

namespace echelon::app {
namespace {

using Json = nlohmann::ordered_json;

struct ValidateArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  int ranks = 0;
  int fewer_nodes = 0;
  bool json = false;
  bool schema = false;
  bool reference = false;
  std::string value;
};

Json to_json(const LoadedRecipe& loaded) {
  Json values;
  Json origins;
  for (const recipe::Key& key : recipe::keys()) {
    std::string pointer = "/" + key.path;
    for (char& c : pointer) c = c == '.' ? '/' : c;
    values[Json::json_pointer(pointer)] = recipe::json_value(key, loaded.recipe);
    origins[key.path] = loaded.origins.at(key.path);
  }
  return {{"valid", true}, {"recipe", values}, {"origins", origins}};
}

LoadedRecipe load_for(const ValidateArguments& arguments) {
  LoadedRecipe loaded = load_recipe(arguments.recipe, arguments.overrides);
  tell_which(loaded);
  check_against_model(loaded);
  if (arguments.ranks > 0) validate_for_size(loaded.recipe, arguments.ranks);
  return loaded;
}

/// With JSON output the verdict goes to standard output too, with one array element per fault.
int print_json(const ValidateArguments& arguments) {
  try {
    std::cout << json_text(to_json(load_for(arguments))) << '\n';
    return 0;
  } catch (const Error& error) {
    Json faults = Json::array();
    for (const std::string& line : split(error.what(), '\n'))
      faults.push_back({{"code", static_cast<int>(error.code())}, {"message", line}});
    std::cout << json_text(Json{{"valid", false}, {"errors", faults}}) << '\n';
    return static_cast<int>(error.code());
  }
}

/// The size of an optimizer step: tokens for language models, else samples.
std::string step_size(const Recipe& recipe) {
  const std::int64_t samples = recipe.train.global_batch_size;
  const bool sequences = !takes_images(recipe.model.kind) && !takes_pairs(recipe.model.kind);
  return sequences ? human_count(static_cast<std::uint64_t>(samples * recipe.data.seq_len)) + " tokens"
                   : human_count(static_cast<std::uint64_t>(samples)) + " samples";
}

void print_text(const ValidateArguments& arguments) {
  const LoadedRecipe loaded = load_for(arguments);
  const Recipe& recipe = loaded.recipe;
  const auto parameters = static_cast<std::uint64_t>(parameter_count(recipe.model).value_or(0));
  const auto adapters = static_cast<std::uint64_t>(adapter_parameters(recipe.model, recipe.lora).value_or(0));
  std::cout << "# valid: " << human_count(parameters + adapters) << " parameters"
            << (adapters > 0 ? str(" (", human_count(adapters), " in adapters)") : "") << ", "
            << step_size(recipe) << " per optimizer step";
  if (arguments.ranks > 0) {
    const std::int64_t passes =
        recipe.train.global_batch_size / (recipe.train.micro_batch_size * arguments.ranks);
    std::cout << ", " << counted(passes, "pass") << " per step on each rank";
  }
  std::cout << '\n' << to_yaml(recipe, &loaded.origins);
}

/// Prints a single value for scripts: text without quotes, other values as JSON.
void print_value(const ValidateArguments& arguments) {
  const recipe::Key* key = recipe::find_key(arguments.value);
  if (key == nullptr) {
    throw Error(Code::kUsage, "--value: no key '", printable(arguments.value), "'; ",
                recipe::suggestion_for(arguments.value));
  }
  // Skips check_against_model(), which loads the engine: scripts ask for values on many machines at once,
  // after the recipe was validated.
  const LoadedRecipe loaded = load_recipe(arguments.recipe, arguments.overrides);
  tell_which(loaded);
  const Json value = recipe::json_value(*key, loaded.recipe);
  std::cout << (value.is_string() ? value.get<std::string>() : json_text(value, -1)) << '\n';
}

/// Prints numbers of nodes for the job script, one a line.
void print_fewer_nodes(const ValidateArguments& arguments) {
  if (arguments.ranks % arguments.fewer_nodes != 0)
    throw Error(Code::kUsage, "--fewer-nodes is ", arguments.fewer_nodes, "; expected a divisor of --ranks (",
                arguments.ranks, "), the ranks of each node");
  const LoadedRecipe loaded = load_recipe(arguments.recipe, arguments.overrides);
  tell_which(loaded);
  validate_for_size(loaded.recipe, arguments.ranks);
  for (const std::int64_t nodes :
       fewer_nodes(loaded.recipe, arguments.ranks / arguments.fewer_nodes, arguments.fewer_nodes))
    std::cout << nodes << '\n';
}

}  // namespace

void add_validate(CLI::App& app, int& status) {
  auto arguments = std::make_shared<ValidateArguments>();
  CLI::App* command =
      app.add_subcommand("validate", "Check a recipe; print it resolved, with the origin of each value");
  command->add_option("recipe", arguments->recipe, "YAML file, or a name that `echelon recipes ls` prints");
  command->add_option("overrides", arguments->overrides, "key.path=value, such as optim.lr=1e-3");
  auto* ranks =
      command->add_option("--ranks", arguments->ranks, "Also check batch and mesh for this number of ranks")
          ->check(in_range(1, 1'000'000));
  auto* json = add_json(*command, arguments->json);
  auto* schema =
      command->add_flag("--schema", arguments->schema, "Print the JSON Schema of recipes, for editors");
  auto* reference =
      command->add_flag("--reference", arguments->reference, "Print the reference of all keys (Markdown)");
  auto* value = command->add_option("--value", arguments->value,
                                    "Print the resolved value of one key alone, such as run.dir");
  auto* fewer =
      command
          ->add_option("--fewer-nodes", arguments->fewer_nodes,
                       "Print with how many nodes of so many ranks each the run may go on (cluster.shrink)")
          ->check(in_range(1, 1'000'000))
          ->needs(ranks);
  schema->excludes(json)->excludes(reference)->excludes(value)->excludes(fewer);
  reference->excludes(json)->excludes(value)->excludes(fewer);
  json->excludes(value)->excludes(fewer);
  value->excludes(fewer);
  command->callback([arguments, &status] {
    if (arguments->schema) {
      std::cout << recipe::json_schema();
    } else if (arguments->reference) {
      std::cout << recipe::reference_markdown();
    } else if (arguments->recipe.empty()) {
      throw Error(Code::kUsage,
                  "validate: no recipe named; expected `echelon validate RECIPE [key=value ...]`");
    } else if (arguments->json) {
      status = print_json(*arguments);
    } else if (arguments->fewer_nodes > 0) {
      print_fewer_nodes(*arguments);
    } else if (!arguments->value.empty()) {
      print_value(*arguments);
    } else {
      print_text(*arguments);
    }
  });
}

}  // namespace echelon::app
