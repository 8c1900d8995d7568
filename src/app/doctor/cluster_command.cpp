#include <algorithm>
#include <cmath>

#include "app/doctor/checks/recipe_size.h"
#include "app/doctor/checks/slurm_checks.h"
#include "app/doctor/commands.h"
#include "app/doctor/machine/folder_probe.h"
#include "app/doctor/report.h"
#include "base/error.h"
#include "base/process/slurm_text.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "recipe/load.h"

namespace echelon::app::doctor {
namespace {

struct ClusterArguments {
  CommonArguments common;
  JobWish wish;
  std::string time;
  std::string folder;
  std::string recipe;
  double timeout_s = 10;
};

constexpr std::uint64_t kProbeBytes = std::uint64_t{64} << 20;

/// Assumes that all nodes write at the same time, each at the rate just measured on this machine.
std::optional<SavePrediction> predict_save(const Recipe& recipe, const JobWish& wish,
                                           const FolderFacts& folder) {
  const int nodes = std::max(1, wish.nodes);
  const int tasks = std::max(1, wish.tasks_per_node);
  const std::optional<RecipeSize> size = size_of(recipe, nodes * tasks, tasks);
  if (!size || folder.bytes < (std::uint64_t{1} << 20) || folder.write_s <= 0) return std::nullopt;
  double bytes_per_s = static_cast<double>(folder.bytes) / folder.write_s;
  if (recipe.checkpoint.max_write_mb_per_s > 0)
    bytes_per_s = std::min(bytes_per_s, recipe.checkpoint.max_write_mb_per_s * 1e6 * tasks);
  const std::uint64_t of_a_node = size->checkpoint_bytes / static_cast<std::uint64_t>(nodes);
  return SavePrediction{.seconds = static_cast<double>(of_a_node) / bytes_per_s,
                        .how = str(human_bytes(of_a_node), " from each of ", counted(nodes, "node"), " at ",
                                   std::round(bytes_per_s / 1e6), " MB/s")};
}

void doctor_cluster(ClusterArguments arguments) {
  Report report("cluster");
  std::optional<Recipe> recipe;
  if (!arguments.recipe.empty()) {
    LoadedRecipe loaded = load_recipe(arguments.recipe, {});
    tell_which(loaded);
    recipe = std::move(loaded.recipe);
  }
  if (arguments.folder.empty()) arguments.folder = recipe ? recipe->run.dir : ".";
  if (!arguments.time.empty()) {
    arguments.wish.time_s = slurm_seconds(arguments.time);
    if (!arguments.wish.time_s) {
      throw Error(Code::kUsage, "--time '", arguments.time,
                  "': expected Slurm's format, such as 90 (minutes), 02:30:00 or 1-00:00:00");
    }
  }
  const FolderFacts folder = probe_folder(arguments.folder, kProbeBytes);
  const auto save = recipe ? predict_save(*recipe, arguments.wish, folder) : std::nullopt;
  report.add(check_slurm(arguments.timeout_s, Machine(arguments.common.root), arguments.wish, save));
  report.add(judge_folder(folder, true));
  report.finish(arguments.common.json);
}

}  // namespace

void add_cluster(CLI::App& doctor) {
  const auto [command, arguments] = add_command<ClusterArguments>(
      doctor, "cluster", "Check that Slurm and the shared file system are ready for runs; for a login node",
      doctor_cluster);
  command.add_option("--partition", arguments.wish.partition, "Partition to submit to (default: Slurm's)");
  command.add_option("--nodes", arguments.wish.nodes, "Nodes a job will request")
      ->check(in_range(1, 100'000));
  command.add_option("--tasks-per-node", arguments.wish.tasks_per_node, "Ranks on each")
      ->check(in_range(1, 1024));
  command.add_option("--time", arguments.time, "Time limit it will request, in sbatch's format");
  command.add_option("--folder", arguments.folder,
                     "Folder on the shared file system (default: the recipe's run.dir, else this one)");
  command.add_option("--recipe", arguments.recipe, "Recipe whose save time is compared with KillWait");
  command.add_option("--timeout", arguments.timeout_s, "Longest wait for an answer from Slurm, seconds")
      ->check(above_zero())
      ->capture_default_str();
  add_common(command, arguments.common);
}

}  // namespace echelon::app::doctor
