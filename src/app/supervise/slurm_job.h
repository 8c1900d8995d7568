#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "app/supervise/nodes.h"

namespace echelon::supervise {

/// The Slurm job of this process: what its environment says, and Slurm's commands. A command that fails or
/// does not answer in time is as if it had printed nothing, unless stated.
class SlurmJob {
 public:
  /// Throws Error(kEnvironment) outside of a job, or where scontrol does not name the job's nodes.
  SlurmJob();

  [[nodiscard]] const std::string& id() const { return id_; }  ///< SLURM_JOB_ID
  /// this_job() (run/start_notes.h). Slurm's commands take it as well.
  [[nodiscard]] const std::string& number() const { return number_; }
  [[nodiscard]] const std::string& own_node() const { return own_node_; }
  [[nodiscard]] const Nodes& nodes() const { return nodes_; }                    ///< in Slurm's order
  [[nodiscard]] std::int64_t tasks_per_node() const { return tasks_per_node_; }  ///< 0: not equally many
  [[nodiscard]] std::int64_t requeues() const { return requeues_; }

  /// Asks which nodes the job has now: lost ones may have been given back.
  void update_nodes();
  /// Returns those of nodes() that Slurm has not given up.
  [[nodiscard]] Nodes answering_nodes() const;

  [[nodiscard]] std::optional<bool> is_running() const;           ///< nothing: the controller does not answer
  [[nodiscard]] std::optional<std::int64_t> kill_wait_s() const;  ///< from SIGTERM to SIGKILL

  /// It was submitted with --no-requeue or comes from salloc, or the cluster has JobRequeue=0.
  [[nodiscard]] bool is_never_requeued() const;

  struct LeftOut {
    Nodes all;
    Nodes suspects;  ///< those of them that only we leave out
  };
  /// The nodes to leave out from now on, for the suspects in `logs`/suspects.txt; `before`: those that the
  /// job has left out as suspects. Nothing: leave it as it is.
  [[nodiscard]] std::optional<LeftOut> left_out(const std::filesystem::path& logs, const Nodes& before) const;

  // Each returns whether Slurm did it.

  /// Back into the queue. Slurm then ends this process and its commands with SIGTERM, and a little later with
  /// SIGKILL.
  [[nodiscard]] bool requeue() const;
  /// After requeue(): Slurm changes this only for a job that waits.
  [[nodiscard]] bool leave_out(const Nodes& nodes) const;
  /// Back into the queue until somebody releases the job; `reason` is in `scontrol show job`.
  [[nodiscard]] bool hold(const std::string& reason) const;
  /// Gives all other nodes back to Slurm. Without slurmdbd, Slurm before 24.11 lets a job be changed only
  /// once, and answers a second time after 5 seconds that it cannot.
  [[nodiscard]] bool keep_nodes(const Nodes& nodes) const;

 private:
  std::string id_, number_, partition_, own_node_;
  Nodes nodes_;
  std::int64_t tasks_per_node_ = 0;
  std::int64_t node_count_ = 0;
  std::int64_t requeues_ = 0;
};

}  // namespace echelon::supervise
