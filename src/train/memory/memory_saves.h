#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/folder/retention.h"
#include "checkpoint/memory/node_save.h"
#include "checkpoint/options.h"
#include "checkpoint/write/rank_save.h"
#include "train/memory/run_memory.h"
#include "train/save/next_action.h"
#include "train/train_state.h"

namespace echelon {

/// Saves a TrainState to the memory of the nodes while training goes on: each rank its shard to its node, and
/// each node the shards of another as copies. Uses the memory of the Checkpointer for the copy of the state,
/// so the two never copy at once. One exchange at the start of a save tells all ranks how the previous one
/// ended; only then is what is older removed. A failed save is a warning. Used by the training thread only.
class MemorySaves {
 public:
  /// Collective. `memory` must outlive it. `attachments`: as the Checkpointer's; those of rank 0 count.
  /// Throws Error(kUsage) where two memory checkpoints do not fit on a node.
  MemorySaves(const CheckpointOptions& options, RunMemory& memory, const TrainState& state,
              const std::map<std::string, std::string>& attachments);

  [[nodiscard]] bool due(std::int64_t step) const { return !off_ && step % options_.memory_every_steps == 0; }

  /// Collective. Returns when training may go on, after the copy of the state to `staging`. `busy`: a
  /// checkpoint that uses `staging` is still being written on this rank. If any rank is busy, or if the
  /// previous memory checkpoint is not complete, this save is left out. `known`: the commits on disk.
  void save(const TrainState& state, const std::shared_ptr<checkpoint::Staging>& staging, bool busy,
            const checkpoint::KnownSteps& known);

  /// Waits until this rank no longer uses the memory for the copy of the state; its shard may still be on its
  /// way to another node. Before the `last` save to disk, which may have little time left, a copy that is not
  /// yet written is given up. Throws Error(kCheckpoint) if that does not come.
  void let_go_of_staging(bool last) const;

 private:
  struct InFlight {
    std::int64_t step = 0;
    std::string name;  ///< of the step folder
    std::unique_ptr<checkpoint::RankSave> shard;
    std::unique_ptr<checkpoint::NodeSave> node;
    std::string error;  ///< why it could not begin here
  };
  [[nodiscard]] SaveReport report(bool busy) const;
  /// Returns the id of a save that begins now; empty: none can begin. Collective.
  [[nodiscard]] std::string settle(std::int64_t step, bool busy);
  void failed(std::int64_t step, const std::string& why);
  [[nodiscard]] std::unique_ptr<checkpoint::RankSave> start(
      const TrainState& state, const std::string& id,
      const std::shared_ptr<checkpoint::Staging>& staging) const;
  /// `checksums`: what checkpoint::blocks_crc() gives for the copy of each rank's state, by rank.
  [[nodiscard]] checkpoint::NodeSavePlan plan(
      const TrainState& state, const std::string& id, const checkpoint::KnownSteps& known,
      const std::vector<std::optional<std::uint32_t>>& checksums) const;
  void require_room(std::uint64_t shard_bytes);

  CheckpointOptions options_;
  RunMemory* memory_;
  double timeout_s_;
  std::map<std::string, std::string> attachments_;
  std::optional<checkpoint::ShardPlan> layout_;
  std::optional<InFlight> in_flight_;
  std::string whole_;                  ///< step folder of the newest one that is whole on all nodes
  std::vector<std::string> outdated_;  ///< the one before, and those that failed: the next save removes them
  int failures_ = 0;                   ///< in a row
  bool saved_ = false;                 ///< any so far
  bool warned_late_ = false;
  bool off_ = false;
};

}  // namespace echelon
