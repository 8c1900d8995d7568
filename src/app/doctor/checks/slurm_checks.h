#pragma once
#include <optional>
#include <string>
#include <vector>

#include "app/doctor/finding.h"
#include "app/doctor/machine/machine.h"
#include "app/doctor/machine/slurm_state.h"

/// One function for each thing about a Slurm cluster that a run depends on. None of them asks Slurm itself.
namespace echelon::app::doctor {

/// What a job is going to ask for.
struct JobWish {
  std::string partition;  ///< empty: the default one
  int nodes = 0;          ///< 0: not stated
  int tasks_per_node = 0;
  std::optional<long> time_s;
};

/// A run's checkpoint of one step, and how long writing it is predicted to take.
struct SavePrediction {
  double seconds = 0;
  std::string how;  ///< "12.1 GiB from each of 2 nodes at 1.3 GB/s"
};

/// Does this Slurm have the PMIx plugin?
[[nodiscard]] Finding check_pmix_plugin(const SlurmState& slurm);
/// Is this Slurm with this PMIx a pair that is known to fail? The version of PMIx is that of the files below
/// /opt/pmix, where ParallelCluster has it, or of this program's library (`client`).
[[nodiscard]] Finding check_pmix_version(const SlurmState& slurm, const Machine& machine,
                                         const std::string& client);
[[nodiscard]] Finding check_mpi_default(const SlurmState& slurm);
/// Which algorithm PMIx's fences use: SLURM_PMIX_FENCE, else mpi.conf.
[[nodiscard]] Finding check_pmix_fence(const SlurmState& slurm, const std::string& environment);
/// Between the signal that ends a job and SIGKILL there must be room for a save.
[[nodiscard]] Finding check_kill_wait(const SlurmState& slurm, const std::optional<SavePrediction>& save);
[[nodiscard]] Finding check_job_requeue(const SlurmState& slurm);
[[nodiscard]] Finding check_preemption(const SlurmState& slurm);
[[nodiscard]] Finding check_partition(const SlurmState& slurm, const JobWish& wish);
/// Nodes that take no work, and whether enough others are left for `wish`.
[[nodiscard]] Finding check_nodes(const SlurmState& slurm, const JobWish& wish);

}  // namespace echelon::app::doctor
