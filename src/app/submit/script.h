#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "app/submit/allocation.h"
#include "app/submit/options.h"

namespace echelon::submit {

/// Where a job runs and what it leaves. Absolute paths that every node sees; unchecked.
struct Place {
  std::string work_dir;    ///< what relative paths of the recipe start from
  std::string run_dir;     ///< may hold {task}
  std::string submission;  ///< folder below run_dir with script and resolved recipe: "submissions/1"
  std::string program;     ///< what a rank runs; in a container a name is looked for in its PATH
  std::string job_name;
};

/// The script that sbatch takes: directives and settings of this job, then script_body(). The same arguments
/// give the same text. Every text of the arguments is checked where it enters (words.h): throws Error(kUsage)
/// naming the option.
[[nodiscard]] std::string render_script(const Options& options, const Allocation& job, const Place& place);

/// The part that all jobs have in common, from its first comment to `exit`: word for word that of
/// cluster/slurm/train.sbatch.
[[nodiscard]] std::string_view script_body();

/// Names under which Slurm reads the script's directives from the environment, where they win over the
/// script: "SBATCH_PARTITION". Those must not reach sbatch.
[[nodiscard]] std::vector<std::string> overriding_variables(std::string_view script);

/// The job's log below the run's folder, with %j or, for an array, %A and %a, as Slurm writes job numbers.
[[nodiscard]] std::string log_name(bool array);

}  // namespace echelon::submit
