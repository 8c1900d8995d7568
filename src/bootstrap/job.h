#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace echelon {

/// This rank and its job. All fields except rank, local_rank, node and host are equal on every rank.
struct JobInfo {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< among the ranks on this node, 0-based
  int local_size = 1;  ///< ranks on this node
  int node = 0;        ///< 0-based, in order of first rank
  int num_nodes = 1;
  std::string host;                ///< this rank's node
  std::vector<std::string> hosts;  ///< host of every rank, indexed by rank
  std::string launcher;            ///< "slurm", "mpirun" or "single"
};

/// All of it but `launcher`, from the host name of each rank.
[[nodiscard]] JobInfo place_rank(int rank, const std::vector<std::string>& hosts);

enum class Launch {
  kPmix,    ///< one rank of an srun --mpi=pmix or mpirun step; refuses silent singletons
  kSingle,  ///< exactly one process, no PMIx; refuses to run inside a step of several tasks
};

using Blob = std::vector<std::byte>;

/// This process's membership in the job and the key-value exchange of its ranks. Not thread-safe.
/// Every wait ends after the deadline given at bootstrap() with Error(kEnvironment or kPeer) that names the
/// PMIx and Slurm versions and what was waited for.
class Job {
 public:
  virtual ~Job() = default;
  [[nodiscard]] const JobInfo& info() const { return info_; }

  /// Every rank contributes `mine`, every rank gets all, indexed by rank. Collective; `name` labels error
  /// messages and must be the same on all ranks. Blobs may differ in size; keep them below a few KiB.
  [[nodiscard]] virtual std::vector<Blob> exchange(std::string_view name, const Blob& mine) = 0;

  /// Returns when every rank has called it. Collective.
  virtual void fence(std::string_view name) = 0;

  /// Ends every rank of the job, best effort, and returns; the caller then exits with its own code.
  virtual void abort(int exit_code, const std::string& reason) = 0;

  /// Leaves the job in good order: final fence, PMIx_Finalize. The last call on this object.
  virtual void finish() = 0;

 protected:
  JobInfo info_;
};

/// Joins the job. Throws Error(kEnvironment): no PMIx server (srun without --mpi=pmix), PMIx_Init past its
/// deadline, PMIx's size and SLURM_NTASKS disagree.
[[nodiscard]] std::unique_ptr<Job> bootstrap(Launch launch, double timeout_s);

/// kPmix inside a PMIx step or a Slurm step of several tasks, else kSingle: what `echelon train` states to
/// bootstrap() when the user gave no --ranks.
[[nodiscard]] bool inside_launched_step();

/// Throws Error(kEnvironment) where one local rank would be a mistake: check_batch_script().
void require_no_wide_batch_script();

/// Versions for --version, doctor and error messages, e.g. "PMIx 4.2.2", "Slurm 22.05.8 (from the
/// environment)".
[[nodiscard]] std::string pmix_version();

}  // namespace echelon
