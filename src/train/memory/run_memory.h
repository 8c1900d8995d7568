#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/net/node_layout.h"
#include "bootstrap/job.h"
#include "checkpoint/memory/assembly.h"
#include "checkpoint/memory/memory_folder.h"
#include "checkpoint/memory/offers.h"
#include "checkpoint/memory/shard_service.h"
#include "checkpoint/options.h"
#include "comm/communicator.h"
#include "run/run_folder.h"

namespace echelon {

/// The memory of the nodes of a job, as far as a run keeps checkpoints there: this rank's view of it. Opens
/// the run's folder on this node, and a service through which other nodes get shards. Used by the training
/// thread only.
class RunMemory {
 public:
  /// Collective. Removes memory checkpoints that this user's jobs left on the nodes a day ago or earlier, and
  /// those of another run of the same name. Throws Error(kUsage) for a folder that cannot be used.
  RunMemory(const CheckpointOptions& options, const RunFolder& folder, const JobInfo& job,
            Communicator& comm);

  [[nodiscard]] const NodeLayout& layout() const { return layout_; }
  [[nodiscard]] checkpoint::MemoryFolder& folder() const { return *folder_; }
  [[nodiscard]] const Secret& secret() const { return secret_; }
  [[nodiscard]] const ServiceCard& card_of(int rank) const { return cards_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Communicator& comm() const { return *comm_; }
  /// Returns whether this is the first rank of its node.
  [[nodiscard]] bool leads() const { return layout_.leads(comm_->rank()); }
  [[nodiscard]] int node() const { return layout_.node_of(comm_->rank()); }

  /// The memory checkpoints that the nodes hold together, newest first; rank 0 logs why others do not count.
  /// Collective. Throws Error(kPeer) where the system cannot tell what is there.
  [[nodiscard]] std::vector<checkpoint::MemoryCandidate> candidates();
  /// `candidate` must outlive it.
  [[nodiscard]] checkpoint::Assembly assembly(const checkpoint::MemoryCandidate& candidate) const;
  /// `shards`: the ones that this rank needs. Returns those that it fetches for its node, whose ranks share
  /// the work. Collective.
  [[nodiscard]] std::vector<int> share_of(const std::vector<int>& shards);
  /// Returns the nodes that hold shards of `candidate`: "nodes n0, n1".
  [[nodiscard]] std::string holders(const checkpoint::MemoryCandidate& candidate) const;

  /// Call it when the run resumes from `candidate`, or from disk or nothing (null). Other memory checkpoints
  /// are removed.
  void resumed_from(const checkpoint::MemoryCandidate* candidate);
  /// Name of the step folder that the run has resumed from; empty: none.
  [[nodiscard]] const std::string& resumed_name() const { return resumed_name_; }

  /// The end of the training was committed to disk: removes its memory. MemorySaves must be gone by then.
  /// Without this call, as after an error, all of it stays: it may be the newest state. Collective.
  void finish();

 private:
  void open(const CheckpointOptions& options, const RunFolder& folder, const JobInfo& job);

  Communicator* comm_;
  NodeLayout layout_;
  Secret secret_{};
  std::unique_ptr<checkpoint::MemoryFolder> folder_;
  std::unique_ptr<checkpoint::ShardServer> server_;    ///< null: one node, or it cannot listen
  std::vector<ServiceCard> cards_;                     ///< by rank
  std::vector<checkpoint::Assembly::Source> sources_;  ///< by node: the rank that serves this one
  std::string resumed_name_;
};

/// The memory of the nodes; null if nothing is saved there. Collective. A restart in place goes on without
/// it, with a warning, where a node's folder cannot be used: that node may be new to the run. Any other start
/// throws what RunMemory() throws.
[[nodiscard]] std::unique_ptr<RunMemory> open_memory(const CheckpointOptions& options,
                                                     const RunFolder& folder, const JobInfo& job,
                                                     Communicator& comm);

}  // namespace echelon
