#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/engine/engine.h"
#include "app/launch.h"
#include "app/plugin.h"
#include "base/error.h"
#include "base/str.h"

namespace echelon::app {
namespace {

struct TrainArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  int ranks = 0;
};

/// Every rank of a step reads the same recipe: one of them reports what is wrong with it.
bool first_of_step() {
  for (const char* variable : {"PMIX_RANK", "SLURM_PROCID"}) {
    const char* value = std::getenv(variable);
    if (value != nullptr) return std::string(value) == "0";
  }
  return true;
}

LoadedRecipe load(const TrainArguments& arguments) {
  try {
    return load_recipe(arguments.recipe, arguments.overrides);
  } catch (const Error& error) {
    if (first_of_step()) throw;
    throw Error(error.code(), "");
  }
}

int train(const TrainArguments& arguments) {
  LoadedRecipe loaded = load(arguments);
  const bool in_step = inside_launched_step();
  if (in_step && arguments.ranks != 0) {
    throw Error(Code::kUsage,
                "--ranks starts local ranks and has no place inside an srun or mpirun step: leave it out, "
                "the step's tasks are the ranks");
  }
  const int ranks = in_step ? 0 : std::max(1, arguments.ranks);
  if (ranks > 0) validate_for_size(loaded.recipe, ranks);
  if (ranks > 1) {
    if (isatty(STDERR_FILENO) == 1) setenv("ECHELON_PROGRESS", "bar", 0);
    std::vector<std::string> command{std::filesystem::read_symlink("/proc/self/exe").string(), "train",
                                     arguments.recipe};
    command.insert(command.end(), arguments.overrides.begin(), arguments.overrides.end());
    return launch_local_ranks(ranks, command);
  }
  return engine_function<TrainFunction>("echelon_engine_train")(
      {.loaded = std::move(loaded), .launch = in_step ? Launch::kPmix : Launch::kSingle});
}

}  // namespace

void add_train(CLI::App& app, int& status) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand(
      "train",
      "Train from a recipe: one rank of the srun --mpi=pmix or mpirun step it is in, else local ranks");
  command->add_option("recipe", arguments->recipe, "Recipe file (YAML)")->required();
  command->add_option("overrides", arguments->overrides,
                      "key.path=value, e.g. optim.lr=3e-4; later ones win");
  command->add_option("--ranks", arguments->ranks, "Local ranks to start (default 1)")
      ->check(CLI::Range(1, 4096));
  command->callback([arguments, &status] { status = train(*arguments); });
}

}  // namespace echelon::app
