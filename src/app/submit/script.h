#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "app/submit/allocation.h"
#include "app/submit/options.h"

namespace echelon::submit {

/// The places of a job: absolute paths that every node must see. Unchecked.
struct Place {
  std::string work_dir;    ///< relative paths of the recipe start here
  std::string run_dir;     ///< may contain {task}
  std::string submission;  ///< folder below run_dir for script and resolved recipe: "submissions/1"
  std::string supervisor;  ///< this program, which runs the job
  std::string program;     ///< what a rank runs; in a container, a bare name is found through its PATH
  std::string job_name;
  bool allow_foreign_folder = false;  ///< run.allow_foreign_folder of every run
};

/// The job script: directives, then `echelon supervise` with the settings of this job. Deterministic. Checks
/// every text it inserts (words.h) and throws Error(kUsage) that names the option.
[[nodiscard]] std::string render_script(const Options& options, const Allocation& job, const Place& place);

/// Names of environment variables that would override the script's directives ("SBATCH_PARTITION"). They must
/// not reach sbatch.
[[nodiscard]] std::vector<std::string> overriding_variables(std::string_view script);

/// The job's log relative to the run folder, with Slurm's placeholders: %j, or %A and %a for an array.
[[nodiscard]] std::string log_name(bool array);

}  // namespace echelon::submit
