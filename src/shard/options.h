#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/patterns.h"

namespace echelon {

/// Recipe key `shard.wrap`: which parameters are gathered together.
struct WrapOptions {
  /// transformer: one unit a layer | size_based: modules of at least `min_params` | modules: those named by
  /// `modules` | none: the model is one unit
  std::string policy = "transformer";
  std::int64_t min_params = 100'000'000;  ///< size_based: parameters of a unit, at least
  std::vector<std::string> exclude;       ///< size_based: patterns of modules that never become units
  std::vector<std::string> modules;       ///< modules: patterns of the modules that become units
};

/// Recipe key `shard.mesh`: the hybrid strategies' two groups. shard x replicate = world size.
struct MeshOptions {
  std::int64_t shard = 0;      ///< ranks that share one copy of the state; 0: those of a node
  std::int64_t replicate = 0;  ///< copies; 0: world size / shard
};

/// Recipe section `shard`.
struct ShardOptions {
  /// full_shard (ZeRO-3) | shard_grad_op (ZeRO-2) | shard_optimizer (ZeRO-1) | no_shard (DDP) | hybrid_shard
  /// | hybrid_grad_op: full_shard / shard_grad_op in groups, replicated between them
  std::string strategy = "full_shard";
  MeshOptions mesh;
  WrapOptions wrap;
  /// 1 (true): gathered weights are given back after forward; 0 (false): kept until their backward; K >= 2: a
  /// K-th of them is kept and backward gathers among K neighbouring ranks (ZeRO++ hpZ)
  std::int64_t reshard_after_forward = 1;
  PatternMap reshard_overrides;           ///< module pattern -> true | false
  std::int64_t forward_prefetch = 1;      ///< units gathered ahead of the one computing
  std::string backward_prefetch = "pre";  ///< pre: ask for the next unit before this one's backward | post:
                                          ///< after it | none
  std::int64_t max_gathered_bytes = 0;    ///< prefetch stops where gathered weights exceed it; 0: no cap
  std::string offload = "none";           ///< none | cpu: slices, gradients, optimizer in host memory
};

/// Recipe section `precision`. A type left "unset" takes the preset's; without a preset it means: not cast.
struct PrecisionOptions {
  std::string preset = "none";   ///< none | fp32 | bf16 | bf16_fp32_reduce | fp16 | grad_bf16 | bf16_pure
  std::string param = "unset";   ///< weights and activations while computing: unset | fp32 | bf16 | fp16
  std::string reduce = "unset";  ///< gradients on their way between ranks
  std::string buffer = "unset";  ///< constant tables (rotary cos/sin)
  std::string output = "unset";  ///< logits as the loss gets them
  std::string master = "unset";  ///< the weights that persist: unset | fp32 | bf16
  PatternMap overrides;          ///< module pattern -> type of its weights and computation
  double loss_scale = 65536.0;   ///< fp16: factor on the loss at the start, a power of two
  std::int64_t loss_scale_growth_steps = 2000;  ///< fp16: doubled after so many finite steps in a row
};

/// Recipe section `activation_checkpointing`.
struct ActivationCheckpointingOptions {
  /// none | full: only a block's input is kept | every_n: of each n-th block | selective: products and
  /// attention are kept, what is cheap is computed again
  std::string policy = "none";
  std::int64_t every_n = 2;
  std::vector<std::string> modules;  ///< patterns; empty: every block
  bool offload = false;              ///< kept inputs wait in host memory
};

}  // namespace echelon
