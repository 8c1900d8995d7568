#pragma once
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "shard/options.h"

namespace echelon {

/// The treatment of weights and gradients under a strategy. The rest of the engine does not know strategies
/// by name.
struct Strategy {
  /// The time at which gathered weights are freed.
  enum class Weights {
    kLayer,  ///< after the layer's forward, and again after its backward
    kPass,   ///< after the layer's backward; kept from forward on
    kStep,   ///< when the optimizer changes them
  };
  Weights weights = Weights::kLayer;
  /// Whole gradients are summed on the rank and reduced with the step's last micro-batch.
  bool reduce_at_end = false;
  std::int64_t keep_ranks = 1;  ///< K of reshard_after_forward; 1: no part is kept
};
[[nodiscard]] Strategy strategy_of(const ShardOptions& options);

/// Number of ranks that share one copy of the state. Throws Error(kUsage) if the mesh does not fit `world`
/// ranks.
[[nodiscard]] int shard_group_size(const ShardOptions& options, int world, int ranks_per_node);

/// The process groups of a strategy. Ranks of a shard group are consecutive (usually one node); replicas are
/// in different groups.
class Groups {
 public:
  /// Collective over `comm`, which must outlive this object. Throws Error(kUsage) if the sizes do not fit.
  Groups(const ShardOptions& options, Communicator& comm, int ranks_per_node);

  [[nodiscard]] Communicator& world() const { return *world_; }
  [[nodiscard]] Communicator& shard() const { return shard_ ? *shard_ : *world_; }
  /// Ranks that hold the same slice; null if each slice exists once.
  [[nodiscard]] Communicator* replicate() const { return replicate_.get(); }
  /// Neighbors that each keep 1/K of the gathered weights between forward and backward; null if no part is
  /// kept.
  [[nodiscard]] Communicator* keep() const { return keep_.get(); }
  [[nodiscard]] int replicas() const { return replicate_ == nullptr ? 1 : replicate_->size(); }
  /// True on exactly one of the ranks with the same slice: it writes the slice to checkpoints.
  [[nodiscard]] bool writes_state() const { return replicate_ == nullptr || replicate_->rank() == 0; }
  /// "2 groups of 4 ranks".
  [[nodiscard]] std::string describe() const;

 private:
  Communicator* world_;
  std::unique_ptr<Communicator> shard_;  ///< null: all ranks
  std::unique_ptr<Communicator> replicate_;
  std::unique_ptr<Communicator> keep_;
};

}  // namespace echelon
