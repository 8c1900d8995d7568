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

/// A job that is ready for Slurm: everything checked, nothing written.
struct Submission {
  struct Run {
    std::filesystem::path dir;  ///< absolute
    std::string recipe;  ///< resolved, as YAML: what the job trains, whatever becomes of the file meanwhile
    bool allow_foreign_folder = false;  ///< run.allow_foreign_folder
  };
  Allocation job;
  Place place;
  std::vector<Run> runs;  ///< one; or one for each task of an array, where run.dir holds {task}
  std::string script;

  /// Of the (first) run: the script, and the log that job number `job` will write (of an array: a pattern).
  [[nodiscard]] std::filesystem::path script_path() const;
  [[nodiscard]] std::filesystem::path log_path(const std::string& job) const;
};

/// A further check of each recipe; throws Error(kUsage).
using RecipeCheck = std::function<void(const LoadedRecipe&)>;

/// Loads the recipe (for each task of an array), checks it against the allocation, renders the script. Throws
/// Error(kUsage) for whatever is wrong in recipe or options, Error(kEnvironment) for a program that is not
/// there.
[[nodiscard]] Submission prepare(const Options& options, const RecipeCheck& also = {});

/// Makes the folders of runs and logs, and writes recipe.yaml and job.sbatch into a new folder submissions/N
/// of each run. Throws Error(kUsage) for folders that cannot be written.
void keep(const Submission& submission);

}  // namespace echelon::submit
