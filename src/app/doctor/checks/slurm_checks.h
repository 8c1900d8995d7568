#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "app/doctor/finding.h"
#include "app/doctor/machine/machine.h"
#include "app/doctor/machine/slurm_state.h"

/// Checks of the Slurm settings that a run depends on. One function per check. They judge a SlurmState and
/// run no commands.
namespace echelon::app::doctor {

/// The request of a job.
struct JobWish {
  std::string partition;  ///< empty: the default partition
  int nodes = 0;          ///< 0: not given
  int tasks_per_node = 0;
  std::optional<std::int64_t> time_s;
};

/// The predicted duration of writing one checkpoint.
struct SavePrediction {
  double seconds = 0;
  std::string how;  ///< "12.1 GiB from each of 2 nodes at 1.3 GB/s"
};

/// Slurm has the PMIx plugin.
[[nodiscard]] Finding check_pmix_plugin(const SlurmState& slurm);
/// The versions of Slurm and PMIx are not a pair that is known to fail. The PMIx version is taken from the
/// files below /opt/pmix (ParallelCluster's place), else from this program's library (`client`).
[[nodiscard]] Finding check_pmix_version(const SlurmState& slurm, const Machine& machine,
                                         const std::string& client);
[[nodiscard]] Finding check_mpi_default(const SlurmState& slurm);
/// Checks which algorithm PMIx fences use. `environment`: value of SLURM_PMIX_FENCE, which overrides
/// mpi.conf.
[[nodiscard]] Finding check_pmix_fence(const SlurmState& slurm, const std::string& environment);
/// The time between the signal that ends a job and SIGKILL is long enough for a save.
[[nodiscard]] Finding check_kill_wait(const SlurmState& slurm, const std::optional<SavePrediction>& save);
[[nodiscard]] Finding check_job_requeue(const SlurmState& slurm);
[[nodiscard]] Finding check_preemption(const SlurmState& slurm);
[[nodiscard]] Finding check_partition(const SlurmState& slurm, const JobWish& wish);
/// Reports nodes that accept no jobs, and whether enough others remain for `wish`.
[[nodiscard]] Finding check_nodes(const SlurmState& slurm, const JobWish& wish);

}  // namespace echelon::app::doctor
