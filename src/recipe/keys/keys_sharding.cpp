#include <limits>

#include "recipe/keys/keys_table.h"

namespace echelon::recipe {
namespace {

constexpr std::int64_t kMaxRanks = 1'000'000;
constexpr std::int64_t kMaxParameters = 10'000'000'000'000;
constexpr std::int64_t kMaxBytes = std::numeric_limits<std::int64_t>::max();

std::vector<Key> mesh_keys() {
  return {
      {ECHELON_KEY(shard.mesh.shard), IntegerRange{0, kMaxRanks}, "ranks",
       "Hybrid strategies: ranks that share one copy of the state. 0: those of a node."},
      {ECHELON_KEY(shard.mesh.replicate), IntegerRange{0, kMaxRanks}, "copies",
       "Hybrid strategies: copies of the state. 0: ranks / `shard`."},
  };
}

std::vector<Key> wrap_keys() {
  return {
      {ECHELON_KEY(shard.wrap.policy),
       choices<WrapPolicy>({{WrapPolicy::kTransformer, "one unit per layer, one for the rest"},
                            {WrapPolicy::kSizeBased, "modules of at least `min_params` parameters"},
                            {WrapPolicy::kModules, "the modules that `modules` names"},
                            {WrapPolicy::kNone, "the model is one unit"}}),
       "", "Which parameters are gathered together."},
      {ECHELON_KEY(shard.wrap.min_params), IntegerRange{1, kMaxParameters}, "parameters",
       "`size_based`: smallest size of a unit."},
      {ECHELON_KEY(shard.wrap.exclude), Text::kPattern, "", "`size_based`: modules that never become units."},
      {ECHELON_KEY(shard.wrap.modules), Text::kPattern, "", "`modules`: the modules that become units."},
  };
}

std::vector<Key> gather_keys() {
  return {
      {ECHELON_KEY(shard.reshard_after_forward), IntegerRange{2, kMaxRanks}, "",
       "`true`: gathered weights are freed after forward. `false`: they are kept until their backward: more "
       "memory, less traffic. Integer K: after forward, weights stay sharded over groups of K neighboring "
       "ranks, so that the backward all-gather stays inside the group (ZeRO++ hpZ)."},
      {ECHELON_KEY(shard.reshard_overrides),
       Choices{{{"true", "freed after forward"}, {"false", "kept until backward"}}, {}}, "",
       "`reshard_after_forward` of the units whose module matches; of several matching patterns the last one "
       "applies."},
      {ECHELON_KEY(shard.forward_prefetch), IntegerRange{0, 64}, "units",
       "Units gathered ahead of the one computing."},
      {ECHELON_KEY(shard.backward_prefetch),
       choices<BackwardPrefetch>(
           {{BackwardPrefetch::kPre, "ask for the next unit before this one's backward"},
            {BackwardPrefetch::kPost, "ask for it after this one's backward"},
            {BackwardPrefetch::kNone, "ask for it when it is needed"}}),
       "", "When backward asks for the next unit."},
      {ECHELON_KEY(shard.max_gathered_bytes), IntegerRange{0, kMaxBytes}, "bytes",
       "Prefetching pauses while gathered weights exceed this. 0: no limit."},
      {ECHELON_KEY(shard.offload),
       choices<Offload>({{Offload::kNone, "everything stays in the device's memory"},
                         {Offload::kCpu,
                          "a rank's part of weights, gradients and optimizer state is kept in host memory"}}),
       "", "What is kept in host memory."},
  };
}

Choices presets() {
  using enum PrecisionPreset;
  return choices<PrecisionPreset>(
      {{kNone, "only the types below apply"},
       {kFp32, "everything fp32"},
       {kBf16, "`param`, `reduce`, `buffer` bf16"},
       {kBf16Fp32Reduce, "`param`, `buffer` bf16, `reduce` fp32"},
       {kFp16, "`param`, `reduce`, `buffer` fp16, with a gradient scaler over all ranks"},
       {kGradBf16, "only `reduce` bf16"},
       {kBf16Pure, "`master`, `param`, `reduce`, `buffer` bf16, for `optim.kind: anyprecision_adamw`"}});
}

}  // namespace

std::vector<Key> shard_keys() {
  const std::vector<Key> strategy{
      {ECHELON_KEY(shard.strategy),
       choices<ShardStrategy>(
           {{ShardStrategy::kFullShard,
             "weights, gradients and optimizer state are split over all ranks (ZeRO-3)"},
            {ShardStrategy::kShardGradOp,
             "the same, but weights stay gathered from forward to the end of backward (ZeRO-2)"},
            {ShardStrategy::kShardOptimizer, "only optimizer state is split (ZeRO-1)"},
            {ShardStrategy::kNoShard, "every rank holds everything (DDP)"},
            {ShardStrategy::kHybridShard, "`full_shard` in groups of ranks, each group holds a copy"},
            {ShardStrategy::kHybridGradOp, "`shard_grad_op` in groups of ranks, each group holds a copy"}}),
       "", "What is split over the ranks."}};
  return joined({strategy, mesh_keys(), wrap_keys(), gather_keys()});
}

std::vector<Key> precision_keys() {
  using enum FloatType;
  const Choices types_or_unset = float_types({kUnset, kFp32, kBf16, kFp16}, "the preset's");
  return {
      {ECHELON_KEY(precision.preset), presets(), "",
       "Sets several types at once; a type given below overrides it."},
      {ECHELON_KEY(precision.param), types_or_unset, "", "Type of weights and activations while computing."},
      {ECHELON_KEY(precision.reduce), types_or_unset, "", "Type in which gradients are summed over ranks."},
      {ECHELON_KEY(precision.buffer), types_or_unset, "", "Type of constant tables (rotary cos and sin)."},
      {ECHELON_KEY(precision.output), types_or_unset, "", "Type in which the loss gets the logits."},
      {ECHELON_KEY(precision.master), float_types({kUnset, kFp32, kBf16}, "the preset's"), "",
       "Type of the weights that persist from step to step. bf16 needs `optim.kind: anyprecision_adamw`."},
      {ECHELON_KEY(precision.frozen), float_types({kUnset, kFp32, kBf16}, "that of `master`"), "",
       "The same of units of which nothing is trained, such as the base of [adapters](lora.md)."},
      {ECHELON_KEY(precision.matmul),
       choices<Matmul>({{Matmul::kParam, "in `param`"},
                        {Matmul::kFp8, "of operands rounded to [fp8](fp8.md), in training passes"}}),
       "", "Products of the matrices in the blocks of the families of Llama and of `gpt2`."},
      {ECHELON_KEY(precision.tf32), kAny, "",
       "GPU: fp32 products and convolutions round their inputs to TF32 (10 bits instead of 23), several "
       "times as fast. Sums stay fp32, as those of bf16 and fp16 products do."},
      {ECHELON_KEY(precision.overrides), float_types({kFp32, kBf16, kFp16}), "",
       "`param` of the modules that match; of several matching patterns the last one applies. A tied "
       "embedding has that of the head."},
      {ECHELON_KEY(precision.loss_scale), NumberRange{0.0, 1e30, true, false}, "",
       "Where anything is fp16: initial factor on the loss, a power of two; halved when gradients "
       "overflow, down to 2^-16."},
      {ECHELON_KEY(precision.loss_scale_growth_steps), IntegerRange{1, kMaxSteps}, "optimizer steps",
       "Where anything is fp16: the factor is doubled after this many consecutive finite steps, up to 2^24."},
  };
}

std::vector<Key> activation_checkpointing_keys() {
  return {
      {ECHELON_KEY(activation_checkpointing.policy),
       choices<RecomputePolicy>({{RecomputePolicy::kNone, "every activation is kept until its backward"},
                                 {RecomputePolicy::kFull, "of each block only its input is kept"},
                                 {RecomputePolicy::kEveryN, "of every n-th block only its input is kept"},
                                 {RecomputePolicy::kSelective,
                                  "products and attention are kept, cheaper operations are recomputed"}}),
       "", "Which activations are recomputed in backward instead of kept."},
      {ECHELON_KEY(activation_checkpointing.every_n), IntegerRange{1, 10'000}, "blocks",
       "`every_n`: distance between recomputed blocks."},
      {ECHELON_KEY(activation_checkpointing.modules), Text::kPattern, "",
       "Blocks to which the policy applies. Empty: every block."},
      {ECHELON_KEY(activation_checkpointing.offload), kAny, "",
       "`full`, `every_n`: the saved inputs stay in host memory between forward and backward."},
  };
}

}  // namespace echelon::recipe
