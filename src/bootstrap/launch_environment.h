#pragma once
#include <functional>
#include <optional>
#include <string>

#include "bootstrap/job.h"

namespace echelon {

/// The facts about this process's start that the environment states. Read once; plain values.
struct LaunchEnvironment {
  std::string pmix_namespace;  ///< empty: no PMIx server
  std::string pmix_version;    ///< the server's libpmix, where it says so
  std::string slurm_job;
  std::string slurm_step;
  std::optional<int> slurm_tasks;  ///< tasks of this srun step; empty outside a step (a batch script is none)
  std::optional<int> slurm_task;   ///< this task's number in the step
  std::optional<int> mpirun_ranks;
  std::optional<int> torchrun_ranks;  ///< empty: torchrun did not start this process
  std::optional<int> batch_tasks;     ///< of the job whose batch script this process is in; empty: in none

  [[nodiscard]] bool several_tasks() const {
    return slurm_tasks.value_or(1) > 1 || mpirun_ranks.value_or(1) > 1;
  }
  [[nodiscard]] bool slurm_server() const { return pmix_namespace.starts_with("slurm."); }
};

using Getenv = std::function<const char*(const char*)>;

/// Throws Error(kEnvironment) where a count is not a number.
[[nodiscard]] LaunchEnvironment read_launch_environment(const Getenv& getenv);

/// Checks that the environment supports the requested launch. Throws Error(kEnvironment) if one task of
/// several, or a worker of torchrun, would run alone, or if PMIx is requested and there is none.
void check_launch(Launch launch, const LaunchEnvironment& environment);

/// Throws Error(kEnvironment) in the batch script of a job of several tasks or nodes: without srun, one of
/// them would train alone.
void check_batch_script(const LaunchEnvironment& environment);

/// Checks PMIx's answers: a server gave them, and its number of ranks equals Slurm's number of tasks.
/// Throws Error(kEnvironment).
void check_pmix_answer(const std::string& name_space, int size, const LaunchEnvironment& environment);

/// ", known to hang: PMIx 5.0.8 and 5.0.9 with Slurm before 25.11.2 ..." where that may be the cause, else
/// "".
[[nodiscard]] std::string known_bad_pair(const LaunchEnvironment& environment,
                                         const std::string& client_version);

}  // namespace echelon
