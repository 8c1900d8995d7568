#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "app/submit/allocation.h"
#include "app/submit/options.h"
#include "app/submit/script.h"
#include "recipe/load.h"

namespace echelon::submit {

/// A checked job, ready for Slurm; nothing is written yet.
struct Submission {
  struct Run {
    std::filesystem::path dir;  ///< absolute
    std::string recipe;  ///< resolved recipe as YAML: later changes of the recipe file do not affect the job
    bool allow_foreign_folder = false;  ///< run.allow_foreign_folder
  };
  Allocation job;
  Place place;
  std::vector<Run> runs;           ///< one; for an array with {task} in run.dir, one per task
  std::vector<std::string> swept;  ///< of a sweep: the override of each run; else empty
  std::string script;

  /// Of the first run: the script, and the log of job number `job` (for an array, a glob pattern).
  [[nodiscard]] std::filesystem::path script_path() const;
  [[nodiscard]] std::filesystem::path log_path(const std::string& job) const;
};

/// An additional check of each recipe. Throws Error(kUsage).
using RecipeCheck = std::function<void(const LoadedRecipe&)>;

/// Loads the recipe (once per task of an array), checks it against the allocation, renders the script. Throws
/// Error(kUsage) for faults of recipe or options, Error(kEnvironment) if the program does not exist.
[[nodiscard]] Submission prepare(const Options& options, const RecipeCheck& also = {});

/// Creates the folders of the runs and their logs, and writes recipe.yaml and job.sbatch into a new folder
/// submissions/N of each run. Throws Error(kUsage) if a folder cannot be written.
void keep(const Submission& submission);

}  // namespace echelon::submit
