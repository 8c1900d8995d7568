#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/options/choice.h"
#include "base/options/patterns.h"
#include "base/options/switch_or_count.h"
#include "shard/precision_options.h"

namespace echelon {

/// The policy that groups parameters into units.
enum class WrapPolicy : std::uint8_t {
  kTransformer,  ///< one unit per embedding, block and head
  kSizeBased,    ///< modules of at least `min_params`
  kModules,      ///< modules that match `modules`
  kNone,         ///< the whole model is one unit
};
template <>
inline constexpr std::array<std::string_view, 4> kWords<WrapPolicy>{"transformer", "size_based", "modules",
                                                                    "none"};

/// Recipe key `shard.wrap`: which parameters are gathered together.
struct WrapOptions {
  WrapPolicy policy = WrapPolicy::kTransformer;
  std::int64_t min_params = 100'000'000;  ///< size_based: minimum number of parameters of a unit
  std::vector<std::string> exclude;       ///< size_based: patterns of modules that never become units
  std::vector<std::string> modules;       ///< modules: patterns of the modules that become units
};

/// Recipe key `shard.mesh`: the two group sizes of hybrid strategies; shard x replicate = world size.
struct MeshOptions {
  std::int64_t shard = 0;      ///< ranks that share one copy of the state; 0: the ranks of a node
  std::int64_t replicate = 0;  ///< copies of the state; 0: world size / shard
};

enum class ShardStrategy : std::uint8_t {
  kFullShard,       ///< ZeRO-3
  kShardGradOp,     ///< ZeRO-2
  kShardOptimizer,  ///< ZeRO-1
  kNoShard,         ///< DDP
  kHybridShard,     ///< kFullShard within groups, replicated between groups
  kHybridGradOp,    ///< kShardGradOp within groups, replicated between groups
};
template <>
inline constexpr std::array<std::string_view, 6> kWords<ShardStrategy>{
    "full_shard", "shard_grad_op", "shard_optimizer", "no_shard", "hybrid_shard", "hybrid_grad_op"};

/// True if every group of ranks holds a complete copy of the state.
[[nodiscard]] constexpr bool is_hybrid(ShardStrategy strategy) {
  return strategy == ShardStrategy::kHybridShard || strategy == ShardStrategy::kHybridGradOp;
}

/// The time at which backward prefetches the next unit.
enum class BackwardPrefetch : std::uint8_t {
  kPre,   ///< before the current unit's backward
  kPost,  ///< after the current unit's backward
  kNone,
};
template <>
inline constexpr std::array<std::string_view, 3> kWords<BackwardPrefetch>{"pre", "post", "none"};

enum class Offload : std::uint8_t {
  kNone,
  kCpu,  ///< slices, gradients and optimizer state in host memory
};
template <>
inline constexpr std::array<std::string_view, 2> kWords<Offload>{"none", "cpu"};

/// Recipe section `shard`.
struct ShardOptions {
  ShardStrategy strategy = ShardStrategy::kFullShard;
  MeshOptions mesh;
  WrapOptions wrap;
  /// On: gathered weights are freed after forward. Off: they are kept until their backward. A count K >= 2:
  /// each rank keeps 1/K of them, and backward gathers among K neighboring ranks (ZeRO++ hpZ).
  SwitchOrCount reshard_after_forward;
  PatternMap<bool> reshard_overrides;  ///< module pattern -> reshard_after_forward of its unit
  std::int64_t forward_prefetch = 1;   ///< units gathered ahead of the current one
  BackwardPrefetch backward_prefetch = BackwardPrefetch::kPre;
  /// No prefetch that would exceed this many bytes of gathered weights; 0: no limit.
  std::int64_t max_gathered_bytes = 0;
  Offload offload = Offload::kNone;
};

/// Number of ranks that share one copy of the state, in a job of `ranks` with `ranks_per_node` on each node.
/// Does not check that the mesh fits these numbers.
[[nodiscard]] constexpr std::int64_t ranks_of_a_copy(const ShardOptions& shard, std::int64_t ranks,
                                                     std::int64_t ranks_per_node) {
  if (shard.strategy == ShardStrategy::kNoShard) return 1;
  if (!is_hybrid(shard.strategy)) return ranks;
  if (shard.mesh.shard > 0) return shard.mesh.shard;
  return shard.mesh.replicate > 0 ? ranks / shard.mesh.replicate : ranks_per_node;
}

/// The activations that are recomputed in backward instead of kept.
enum class RecomputePolicy : std::uint8_t {
  kNone,
  kFull,       ///< only the input of each block is kept
  kEveryN,     ///< as kFull, for every n-th block
  kSelective,  ///< outputs of matrix products and attention are kept, cheaper operations are recomputed
};
template <>
inline constexpr std::array<std::string_view, 4> kWords<RecomputePolicy>{"none", "full", "every_n",
                                                                         "selective"};

/// Recipe section `activation_checkpointing`.
struct ActivationCheckpointingOptions {
  RecomputePolicy policy = RecomputePolicy::kNone;
  std::int64_t every_n = 2;
  std::vector<std::string> modules;  ///< patterns; empty: every block
  bool offload = false;              ///< kept inputs are moved to host memory until backward
};

}  // namespace echelon
