#pragma once
#include <string_view>

namespace echelon::recipe {

/// A feature that other trainers have and a recipe does not.
struct Absent {
  std::string_view name;     ///< of a section or key; also a word at its begin or end: "lora" of "lora_rank"
  std::string_view instead;  ///< one sentence
};

inline constexpr Absent kAbsent[]{
    {"compile", "nothing is compiled ahead, the operations are fused as they are: remove it"},
    {"wandb",
     "no service is reported to: metrics.tensorboard and metrics.csv make files of the metrics, and "
     "docs/metrics.md tells how others read them"},
    {"gradient_accumulation_steps",
     "it follows from train.global_batch_size = train.micro_batch_size x ranks x accumulated passes"},
    {"tensor_parallel", "weights are sharded (shard.strategy), never computed in parts"},
    {"pipeline_parallel", "weights are sharded (shard.strategy), never computed in parts"},
};

/// A key's name in other programs; those of translated configurations are in equivalents.cpp.
struct OtherKey {
  std::string_view path;  ///< as if it were a key
  std::string_view key;   ///< ours
};

inline constexpr OtherKey kOtherKeys[]{
    {"lora.r", "lora.rank"},
    {"model.num_hidden_layers", "model.layers"},
    {"model.num_attention_heads", "model.heads"},
    {"model.num_key_value_heads", "model.kv_heads"},
    {"model.max_position_embeddings", "model.max_positions"},
    {"model.head_dim", "model.head_size"},
    {"optim.name", "optim.kind"},
    {"optim.type", "optim.kind"},
};

/// A value's name in another trainer or in older recipes.
struct OtherValue {
  std::string_view path;   ///< our key; empty: every key that accepts `value`
  std::string_view name;   ///< in lower case
  std::string_view value;  ///< ours
};

inline constexpr OtherValue kOtherValues[]{
    {"", "float32", "fp32"},
    {"", "float", "fp32"},
    {"", "torch.float32", "fp32"},
    {"", "bfloat16", "bf16"},
    {"", "torch.bfloat16", "bf16"},
    {"", "float16", "fp16"},
    {"", "half", "fp16"},
    {"", "torch.float16", "fp16"},
    {"precision.preset", "pure_bf16", "bf16_pure"},
    {"shard.strategy", "3", "full_shard"},
    {"shard.strategy", "zero3", "full_shard"},
    {"shard.strategy", "zero_3", "full_shard"},
    {"shard.strategy", "fsdp", "full_shard"},
    {"shard.strategy", "2", "shard_grad_op"},
    {"shard.strategy", "zero2", "shard_grad_op"},
    {"shard.strategy", "zero_2", "shard_grad_op"},
    {"shard.strategy", "grad_op", "shard_grad_op"},
    {"shard.strategy", "1", "shard_optimizer"},
    {"shard.strategy", "zero1", "shard_optimizer"},
    {"shard.strategy", "zero_1", "shard_optimizer"},
    {"shard.strategy", "optimizer_only", "shard_optimizer"},
    {"shard.strategy", "0", "no_shard"},
    {"shard.strategy", "ddp", "no_shard"},
    {"shard.strategy", "none", "no_shard"},
    {"shard.strategy", "hybrid", "hybrid_shard"},
    {"shard.strategy", "hsdp", "hybrid_shard"},
    {"shard.strategy", "_hybrid_shard_zero2", "hybrid_grad_op"},
    {"shard.wrap.policy", "whole", "none"},
    {"shard.wrap.policy", "size", "size_based"},
    {"shard.wrap.policy", "size_based_auto_wrap_policy", "size_based"},
    {"shard.wrap.policy", "transformer_auto_wrap_policy", "transformer"},
    {"shard.backward_prefetch", "backward_pre", "pre"},
    {"shard.backward_prefetch", "backward_post", "post"},
    {"shard.offload", "true", "cpu"},
    {"shard.offload", "params", "cpu"},
    {"shard.offload", "false", "none"},
    {"activation_checkpointing.policy", "true", "full"},
    {"activation_checkpointing.policy", "false", "none"},
    {"optim.kind", "anyprecision", "anyprecision_adamw"},
    {"optim.kind", "anyprecisionadamw", "anyprecision_adamw"},
    {"schedule.kind", "wsd", "warmup_stable_decay"},
    {"schedule.kind", "sequential", "sequence"},
    {"schedule.kind", "steplr", "step"},
    {"schedule.kind", "step_lr", "step"},
    {"train.device", "gpu", "cuda"},
};

}  // namespace echelon::recipe
