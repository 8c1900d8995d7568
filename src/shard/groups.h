#pragma once
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "shard/options.h"

namespace echelon {

/// How a strategy treats weights and gradients; the rest of the engine knows only this.
struct Strategy {
  /// How long gathered weights stay.
  enum class Weights {
    kLayer,  ///< until the layer's forward, and again its backward, is over
    kPass,   ///< from forward until their backward
    kStep,   ///< until the optimizer changes them
  };
  Weights weights = Weights::kLayer;
  bool replicated = false;      ///< the state exists once per shard group, not once per job
  bool reduce_at_end = false;   ///< whole gradients stay on the rank until the step's last micro-batch
  std::int64_t keep_ranks = 1;  ///< K of reshard_after_forward; 1: none
};
[[nodiscard]] Strategy strategy_of(const ShardOptions& options);

/// Ranks that share one copy of the state. Throws Error(kUsage) when the sizes do not fit `world` ranks.
[[nodiscard]] int shard_group_size(const ShardOptions& options, int world, int ranks_per_node);

/// The groups a strategy talks in. Ranks of a shard group are neighbours (mostly a node), copies lie across.
class Groups {
 public:
  /// Collective over `comm`, which outlives this object. Throws Error(kUsage) when sizes do not fit.
  Groups(const ShardOptions& options, Communicator& comm, int ranks_per_node);

  [[nodiscard]] Communicator& world() const { return *world_; }
  [[nodiscard]] Communicator& shard() const { return *shard_; }
  /// Ranks that hold the same slice; null when there is only one.
  [[nodiscard]] Communicator* replicate() const { return replicate_; }
  /// Ranks that keep a part of the gathered weights between forward and backward; null when none do.
  [[nodiscard]] Communicator* keep() const { return keep_.get(); }
  [[nodiscard]] int replicas() const { return replicate_ == nullptr ? 1 : replicate_->size(); }
  /// Of several ranks with the same slice, the one that writes it to checkpoints.
  [[nodiscard]] bool writes_state() const { return replicate_ == nullptr || replicate_->rank() == 0; }
  /// "2 groups of 4 ranks".
  [[nodiscard]] std::string describe() const;

 private:
  Communicator* world_;
  std::unique_ptr<Communicator> own_shard_;
  std::unique_ptr<Communicator> own_replicate_;
  std::unique_ptr<Communicator> keep_;
  Communicator* shard_;
  Communicator* replicate_ = nullptr;
};

}  // namespace echelon
