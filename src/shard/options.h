#pragma once
#include <cstdint>
#include <string>

namespace echelon {

/// Recipe key `shard.wrap`: which parameters are gathered together.
struct WrapOptions {
  std::string policy =
      "transformer";  ///< transformer: one unit a layer, one for the rest | whole: one unit in all
};

/// Recipe section `shard`.
struct ShardOptions {
  std::string strategy = "full_shard";  ///< full_shard
  WrapOptions wrap;
  bool reshard_after_forward =
      true;  ///< false keeps the weights gathered until their backward (ZeRO-2's traffic)
  std::int64_t forward_prefetch = 1;  ///< units gathered ahead of the one computing
  std::string backward_prefetch =
      "pre";  ///< pre: ask for the next unit before this one's backward | post: after it | none
  std::string offload = "none";  ///< none
};

/// Recipe section `precision`. Master weights, gradients' sum and optimizer state are fp32 always.
struct PrecisionOptions {
  std::string param = "bf16";   ///< weights and activations while computing: bf16 | fp32
  std::string reduce = "fp32";  ///< gradients are summed over ranks in: fp32
  std::string buffer = "bf16";  ///< constant tables (rotary cos/sin): bf16 | fp32
};

/// Recipe section `activation_checkpointing`.
struct ActivationCheckpointingOptions {
  std::string policy = "none";  ///< none
};

}  // namespace echelon
