#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/options/choice.h"
#include "base/options/patterns.h"
#include "base/options/switch_or_count.h"
#include "shard/precision_options.h"

namespace echelon {

/// Which parameters become a unit.
enum class WrapPolicy : std::uint8_t {
  kTransformer,  ///< one unit a layer
  kSizeBased,    ///< modules of at least `min_params`
  kModules,      ///< those named by `modules`
  kNone,         ///< the model is one unit
};
template <>
inline constexpr std::array<std::string_view, 4> kWords<WrapPolicy>{"transformer", "size_based", "modules",
                                                                    "none"};

/// Recipe key `shard.wrap`: which parameters are gathered together.
struct WrapOptions {
  WrapPolicy policy = WrapPolicy::kTransformer;
  std::int64_t min_params = 100'000'000;  ///< size_based: parameters of a unit, at least
  std::vector<std::string> exclude;       ///< size_based: patterns of modules that never become units
  std::vector<std::string> modules;       ///< modules: patterns of the modules that become units
};

/// Recipe key `shard.mesh`: the hybrid strategies' two groups. shard x replicate = world size.
struct MeshOptions {
  std::int64_t shard = 0;      ///< ranks that share one copy of the state; 0: those of a node
  std::int64_t replicate = 0;  ///< copies; 0: world size / shard
};

enum class ShardStrategy : std::uint8_t {
  kFullShard,       ///< ZeRO-3
  kShardGradOp,     ///< ZeRO-2
  kShardOptimizer,  ///< ZeRO-1
  kNoShard,         ///< DDP
  kHybridShard,     ///< kFullShard in groups, replicated between them
  kHybridGradOp,    ///< kShardGradOp in groups, replicated between them
};
template <>
inline constexpr std::array<std::string_view, 6> kWords<ShardStrategy>{
    "full_shard", "shard_grad_op", "shard_optimizer", "no_shard", "hybrid_shard", "hybrid_grad_op"};

/// Is the state kept once per group of ranks, in several copies?
[[nodiscard]] constexpr bool is_hybrid(ShardStrategy strategy) {
  return strategy == ShardStrategy::kHybridShard || strategy == ShardStrategy::kHybridGradOp;
}

/// When backward asks for the next unit.
enum class BackwardPrefetch : std::uint8_t {
  kPre,   ///< before this unit's backward
  kPost,  ///< after it
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
  /// On: gathered weights are freed after forward. Off: they are kept until their backward. A count K >= 2: a
  /// K-th of them is kept, and backward gathers among K neighbouring ranks (ZeRO++ hpZ)
  SwitchOrCount reshard_after_forward;
  PatternMap<bool> reshard_overrides;  ///< module pattern -> its reshard_after_forward
  std::int64_t forward_prefetch = 1;   ///< units gathered ahead of the one computing
  BackwardPrefetch backward_prefetch = BackwardPrefetch::kPre;
  std::int64_t max_gathered_bytes = 0;  ///< prefetch stops where gathered weights exceed it; 0: no cap
  Offload offload = Offload::kNone;
};

/// Ranks that share one copy of the state, of `ranks` with `ranks_per_node` on each node. Whether the mesh
/// fits these numbers is not checked.
[[nodiscard]] constexpr std::int64_t ranks_of_a_copy(const ShardOptions& shard, std::int64_t ranks,
                                                     std::int64_t ranks_per_node) {
  if (shard.strategy == ShardStrategy::kNoShard) return 1;
  if (!is_hybrid(shard.strategy)) return ranks;
  if (shard.mesh.shard > 0) return shard.mesh.shard;
  return shard.mesh.replicate > 0 ? ranks / shard.mesh.replicate : ranks_per_node;
}

/// Which activations are recomputed in backward instead of kept.
enum class RecomputePolicy : std::uint8_t {
  kNone,
  kFull,       ///< of each block only its input is kept
  kEveryN,     ///< of each n-th block
  kSelective,  ///< products and attention are kept, cheaper operations are recomputed
};
template <>
inline constexpr std::array<std::string_view, 4> kWords<RecomputePolicy>{"none", "full", "every_n",
                                                                         "selective"};

/// Recipe section `activation_checkpointing`.
struct ActivationCheckpointingOptions {
  RecomputePolicy policy = RecomputePolicy::kNone;
  std::int64_t every_n = 2;
  std::vector<std::string> modules;  ///< patterns; empty: every block
  bool offload = false;              ///< kept inputs wait in host memory
};

}  // namespace echelon
