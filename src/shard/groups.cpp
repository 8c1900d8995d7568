#include "shard/groups.h"

#include <algorithm>

#include "base/error.h"
#include "base/str.h"

namespace echelon {
namespace {

void check_mesh(const ShardOptions& options, std::int64_t shard, int world) {
  const std::int64_t replicate = options.mesh.replicate;
  if (shard >= 1 && world % shard == 0 && (replicate == 0 || shard * replicate == world)) return;
  throw Error(Code::kUsage, "shard.mesh of ", shard, " ranks",
              replicate > 0 ? str(" x ", replicate, " copies") : "", " does not fit ", world,
              " ranks: set shard.mesh.shard to a divisor of the number of ranks and "
              "leave shard.mesh.replicate at 0");
}

}  // namespace

Strategy strategy_of(const ShardOptions& options) {
  using Weights = Strategy::Weights;
  Strategy strategy;
  switch (options.strategy) {
    case ShardStrategy::kFullShard:
    case ShardStrategy::kHybridShard:
      strategy.weights = options.reshard_after_forward.on ? Weights::kLayer : Weights::kPass;
      strategy.keep_ranks = std::max<std::int64_t>(1, options.reshard_after_forward.count);
      break;
    case ShardStrategy::kShardGradOp:
    case ShardStrategy::kHybridGradOp: strategy.weights = Weights::kPass; break;
    case ShardStrategy::kShardOptimizer:
      strategy.weights = Weights::kStep;
      strategy.reduce_at_end = true;
      break;
    case ShardStrategy::kNoShard: strategy.weights = Weights::kStep; break;
  }
  return strategy;
}

int shard_group_size(const ShardOptions& options, int world, int ranks_per_node) {
  const std::int64_t size = ranks_of_a_copy(options, world, ranks_per_node);
  if (is_hybrid(options.strategy)) check_mesh(options, size, world);
  return static_cast<int>(size);
}

Groups::Groups(const ShardOptions& options, Communicator& comm, int ranks_per_node) : world_(&comm) {
  const std::int64_t keep = strategy_of(options).keep_ranks;
  const int size = shard_group_size(options, comm.size(), ranks_per_node);
  if (size < comm.size()) {
    shard_ = comm.split([size](int rank) { return rank / size; });
    replicate_ = comm.split([size](int rank) { return rank % size; });
  }
  if (keep <= 1) return;
  if (size % keep != 0) {
    throw Error(Code::kUsage, "shard.reshard_after_forward is ", keep, "; expected a divisor of the ", size,
                " ranks of a shard group");
  }
  keep_ = shard().split([keep](int rank) { return static_cast<int>(rank / keep); });
}

std::string Groups::describe() const {
  return str(counted(replicas(), "group"), " of ", counted(shard().size(), "rank"));
}

}  // namespace echelon
