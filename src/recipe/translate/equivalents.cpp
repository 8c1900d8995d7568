#include "recipe/translate/equivalents.h"

#include <vector>

#include "base/number.h"
#include "recipe/translate/collected.h"

namespace echelon::recipe {
namespace {

// Parallel axes of size 1 and what Echelon needs no word for are kOwn or kOne; a prefix only where nothing
// below it changes what is trained.
constexpr std::string_view kOnOff = "true=full True=full";
constexpr std::string_view kFp8Matrices =
    "precision.matmul: fp8 takes every matrix of the blocks, and no other";
constexpr std::string_view kQuantized =
    "frozen weights are not quantized; precision.frozen: bf16 halves them";
constexpr std::string_view kParallel =
    "there is no tensor, pipeline, context or expert parallelism; sharding over all ranks takes its place";
constexpr std::string_view kKernels = "Echelon has kernels of its own";
constexpr std::string_view kNoPython = "no Python runs";
constexpr std::string_view kAdapter = "`echelon-ckpt import` reads an adapter";
constexpr std::string_view kMasked = "`echelon prepare --format chat` masks what is not the assistant's";
constexpr std::string_view kTemplate =
    "`echelon prepare` renders with the template of the tokenizer's folder, or --chat-template FILE";

// In TrainingArguments and, passed through, in axolotl and LLaMA-Factory.
constexpr Equivalent kHuggingFace[]{
    {"max_steps", Take::kInput, "train.steps", ""},
    {"num_epochs num_train_epochs", Take::kInput, "train.epochs", ""},
    {"micro_batch_size per_device_train_batch_size", Take::kInput, "train.micro_batch_size", ""},
    {"gradient_accumulation_steps", Take::kInput, "train.global_batch_size", ""},
    {"warmup_ratio warmup_steps", Take::kInput, "schedule.warmup_steps", ""},
    {"adam_beta1 adam_beta2", Take::kInput, "optim.betas", ""},
    {"optimizer optim", Take::kInput, "optim.kind", ""},
    {"lr_scheduler lr_scheduler_type", Take::kInput, "schedule.kind", ""},
    {"learning_rate", Take::kCopy, "optim.lr", ""},
    {"weight_decay", Take::kCopy, "optim.weight_decay", ""},
    {"adam_epsilon", Take::kCopy, "optim.eps", ""},
    {"max_grad_norm", Take::kCopy, "train.clip_grad_norm", ""},
    {"seed", Take::kCopy, "run.seed", ""},
    {"output_dir", Take::kText, "run.dir", ""},
    {"bf16", Take::kWords, "precision.preset",
     "true=bf16_fp32_reduce True=bf16_fp32_reduce auto=bf16_fp32_reduce full=bf16_fp32_reduce"},
    {"fp16", Take::kWords, "precision.preset", "true=fp16 True=fp16"},
    {"gradient_checkpointing", Take::kWords, "activation_checkpointing.policy", kOnOff},
    {"gradient_checkpointing_kwargs. logging_strategy "
     "save_first_step save_safetensors save_only_model torch_compile tf32 do_train do_eval "
     "overwrite_output_dir remove_unused_columns ddp_ dataloader_ dataset_num_proc preprocessing_num_workers "
     "per_device_eval_batch_size eval_batch_size log_level logging_first_step run_name attn_implementation "
     "torch_dtype",
     Take::kOwn, "", ""},
    {"activation_offloading", Take::kWords, "activation_checkpointing.offload", "true=true True=true"},
    {"logging_steps", Take::kCount, "metrics.every_steps", ""},
    {"save_strategy", Take::kInput, "checkpoint.every_steps", ""},
    {"eval_strategy evaluation_strategy", Take::kInput, "train.validate_every_epochs", ""},
    {"save_steps", Take::kCount, "checkpoint.every_steps", ""},
    {"save_total_limit", Take::kCopy, "checkpoint.keep_last", ""},
    {"eval_steps", Take::kCount, "train.validate_every_steps", ""},
    {"saves_per_epoch", Take::kNone, "", "set checkpoint.every_steps, or checkpoint.auto_interval: true"},
    {"evals_per_epoch", Take::kInput, "evals_per_epoch", ""},
    {"resume_from_checkpoint", Take::kNone, "",
     "a run goes on by itself from the newest checkpoint of its folder"},
    {"deepspeed", Take::kNone, "", "shard.strategy says what its stage says"},
    {"report_to", Take::kInput, "metrics.tensorboard", ""},
    {"push_to_hub hub_", Take::kNone, "", "`echelon-ckpt export` writes a folder that can be uploaded"},
    {"model_name_or_path", Take::kInput, "model.from", ""},
    {"max_seq_length max_length block_size", Take::kCopy, "data.seq_len", ""},
    {"use_peft", Take::kInput, "lora.rank", ""},
    {"packing sample_packing", Take::kInput, "data.packing", ""},
    {"lora_r", Take::kCopy, "lora.rank", ""},
    {"lora_alpha", Take::kCopy, "lora.alpha", ""},
    {"lora_dropout", Take::kCopy, "lora.dropout", ""},
    {"lora_target_modules", Take::kInput, "lora.modules", ""},
    {"lora_modules_to_save", Take::kInput, "lora.also_train", ""},
    {"load_in_4bit load_in_8bit", Take::kNone, "", kQuantized},
    {"neftune_noise_alpha", Take::kNone, "", "there is no noise on embeddings"},
    {"beta", Take::kInput, "train.dpo.beta", ""},
    {"loss_type", Take::kInput, "loss_type", ""},
    {"label_smoothing_factor", Take::kNone, "", "there is no label smoothing"},
};

constexpr Equivalent kAxolotl[]{
    {"base_model", Take::kInput, "model.from", ""},
    {"sequence_len", Take::kCopy, "data.seq_len", ""},
    {"datasets. pretraining_dataset.", Take::kInput, "data.path", ""},
    {"val_set_size", Take::kInput, "data.validation.path", ""},
    {"adapter", Take::kInput, "lora.rank", ""},
    {"lora_target_linear lora_mlp_kernel lora_qkv_kernel lora_o_kernel eval_sample_packing "
     "pad_to_sequence_len dataset_prepared_path model_type tokenizer_type flash_attention strict liger_ "
     "use_kernels group_by_length",
     Take::kOwn, "", ""},
    {"lora_model_dir", Take::kNone, "", kAdapter},
    {"peft_use_rslora", Take::kCopy, "lora.use_rslora", ""},
    {"trust_remote_code", Take::kNone, "", kNoPython},
    {"plugins", Take::kNone, "", kKernels},
    {"use_tensorboard", Take::kWords, "metrics.tensorboard", "true=true True=true"},
    {"wandb_ mlflow_ use_wandb use_mlflow", Take::kNone, "", kTrackers},
    {"chat_template", Take::kNone, "", kTemplate},
    {"special_tokens.", Take::kNone, "", "they are those of the tokenizer's folder; nothing is padded"},
    {"eot_tokens", Take::kNone, "", "`echelon prepare --end-of-turn TOKEN`"},
    {"train_on_inputs", Take::kNone, "", kMasked},
    {"fsdp_config.offload_params fsdp_config.fsdp_offload_params", Take::kWords, "shard.offload",
     "true=cpu True=cpu"},
    {"fsdp_config. fsdp_version fsdp", Take::kOwn, "", ""},
    {"loss_watchdog_", Take::kNone, "", "a loss that is not finite stops the run (train.non_finite)"},
    {"rl", Take::kNone, "", "this translates supervised fine-tuning only"},
    {"tensor_parallel_size context_parallel_size", Take::kOne, "", kParallel},
};

constexpr Equivalent kAutoModel[]{
    {"model.pretrained_model_name_or_path", Take::kInput, "model.from", ""},
    {"model.config.", Take::kNone, "", "set model.preset, or model.from with weights to begin with"},
    {"model.torch_dtype model.force_hf step_scheduler.gc_every_steps model.backend. "
     "model.attn_implementation model.use_liger_kernel",
     Take::kOwn, "", ""},
    {"benchmark.", Take::kNone, "", "`echelon plan` predicts speed, metrics.jsonl has it"},
    {"seed rng.seed", Take::kCopy, "run.seed", ""},
    {"model.trust_remote_code", Take::kNone, "", kNoPython},
    {"step_scheduler.global_batch_size", Take::kInput, "train.global_batch_size", ""},
    {"step_scheduler.local_batch_size", Take::kInput, "train.micro_batch_size", ""},
    {"step_scheduler.max_steps", Take::kInput, "train.steps", ""},
    {"step_scheduler.num_epochs", Take::kInput, "train.epochs", ""},
    {"step_scheduler.ckpt_every_steps", Take::kCount, "checkpoint.every_steps", ""},
    {"step_scheduler.val_every_steps", Take::kCount, "train.validate_every_steps", ""},
    {"checkpoint.checkpoint_dir", Take::kText, "run.dir", ""},
    {"checkpoint. optimizer.fused optimizer.foreach peft.match_all_linear peft.use_triton peft._target_",
     Take::kOwn, "", ""},
    {"optimizer._target_", Take::kInput, "optim.kind", ""},
    {"optimizer.lr", Take::kCopy, "optim.lr", ""},
    {"optimizer.betas", Take::kCopy, "optim.betas", ""},
    {"optimizer.eps", Take::kCopy, "optim.eps", ""},
    {"optimizer.weight_decay", Take::kCopy, "optim.weight_decay", ""},
    {"optimizer.momentum", Take::kCopy, "optim.momentum", ""},
    {"optimizer.nesterov", Take::kWords, "optim.nesterov", "true=true True=true false=false False=false"},
    {"optimizer.ns_steps", Take::kCopy, "optim.muon.ns_steps", ""},
    {"optimizer.adjust_lr_fn", Take::kWords, "optim.muon.scale",
     "original=spectral match_rms_adamw=match_adamw"},
    {"lr_scheduler.lr_decay_style", Take::kInput, "schedule.kind", ""},
    {"lr_scheduler.lr_warmup_steps", Take::kInput, "schedule.warmup_steps", ""},
    {"lr_scheduler.min_lr", Take::kCopy, "schedule.min_lr", ""},
    {"lr_scheduler.init_lr", Take::kInput, "schedule.warmup_start_factor", ""},
    {"max_grad_norm.max_norm clip_grad_norm.max_norm", Take::kCopy, "train.clip_grad_norm", ""},
    {"peft.dim", Take::kCopy, "lora.rank", ""},
    {"peft.alpha", Take::kCopy, "lora.alpha", ""},
    {"peft.dropout", Take::kCopy, "lora.dropout", ""},
    {"peft.target_modules", Take::kInput, "lora.modules", ""},
    {"quantization.", Take::kNone, "", kQuantized},
    {"fp8.enabled fp8.recipe_name", Take::kInput, "precision.matmul", ""},
    {"fp8.filter_fqns", Take::kNone, "", kFp8Matrices},
    {"fp8. distributed.dp_size distributed.pipeline. distributed.moe. distributed._target_", Take::kOwn, "",
     ""},
    {"distributed.activation_checkpointing", Take::kWords, "activation_checkpointing.policy", kOnOff},
    {"distributed.tp_size distributed.pp_size distributed.cp_size distributed.ep_size", Take::kOne, "",
     kParallel},
    {"distributed.strategy", Take::kWords, "shard.strategy",
     "fsdp2=full_shard megatron_fsdp=full_shard ddp=no_shard"},
    {"distributed.dp_replicate_size", Take::kInput, "shard.mesh.replicate", ""},
    {"distributed.sequence_parallel", Take::kNone, "", kParallel},
    {"packed_sequence.packed_sequence_size", Take::kCount, "data.seq_len", ""},
    {"dataset.seq_len dataset.seq_length", Take::kCount, "data.seq_len", ""},
    {"dataloader.batch_size", Take::kInput, "train.micro_batch_size", ""},
    {"packed_sequence. dataloader. validation_dataloader. loss_fn. compile. dist_env. rng. ci. "
     "model._target_ recipe",
     Take::kOwn, "", ""},
    {"dataset.", Take::kInput, "data.path", ""},
    {"validation_dataset.", Take::kInput, "data.validation.path", ""},
    {"wandb.", Take::kNone, "", kTrackers},
};

constexpr Equivalent kTorchtitan[]{
    {"job.dump_folder", Take::kText, "run.dir", ""},
    {"job.", Take::kOwn, "", ""},
    {"profiling.", Take::kNone, "", "`echelon train --profile FIRST..LAST` records steps"},
    {"metrics.log_freq", Take::kCopy, "metrics.every_steps", ""},
    {"metrics.enable_tensorboard", Take::kCopy, "metrics.tensorboard", ""},
    {"metrics.enable_wandb", Take::kNone, "", kTrackers},
    {"metrics. optimizer.implementation training.mixed_precision_reduce training.compile training.gc_ "
     "parallelism.data_parallel_shard_degree",
     Take::kOwn, "", ""},
    {"model.name model.flavor", Take::kInput, "model.preset", ""},
    {"model.converters float8.recipe_name quantize.linear.float8.recipe_name", Take::kInput,
     "precision.matmul", ""},
    {"model.hf_assets_path model.tokenizer_path", Take::kInput, "data.tokenizer", ""},
    {"optimizer.name", Take::kInput, "optim.kind", ""},
    {"optimizer.lr", Take::kCopy, "optim.lr", ""},
    {"optimizer.eps", Take::kCopy, "optim.eps", ""},
    {"optimizer.weight_decay", Take::kCopy, "optim.weight_decay", ""},
    {"optimizer.beta1 optimizer.beta2", Take::kInput, "optim.betas", ""},
    {"lr_scheduler.warmup_steps", Take::kInput, "schedule.warmup_steps", ""},
    {"lr_scheduler.decay_type", Take::kInput, "schedule.kind", ""},
    {"lr_scheduler.decay_ratio", Take::kNone, "", "schedule.kind: warmup_stable_decay has decay_steps"},
    {"lr_scheduler.min_lr_factor", Take::kNone, "", "schedule.min_lr is a rate, no factor"},
    {"training.local_batch_size training.batch_size", Take::kInput, "train.micro_batch_size", ""},
    {"training.global_batch_size", Take::kInput, "train.global_batch_size", ""},
    {"training.seq_len", Take::kCopy, "data.seq_len", ""},
    {"training.max_norm", Take::kCopy, "train.clip_grad_norm", ""},
    {"training.steps", Take::kInput, "train.steps", ""},
    {"training.dataset training.dataset_path", Take::kInput, "data.path", ""},
    {"training.seed", Take::kCopy, "run.seed", ""},
    {"training.deterministic", Take::kCopy, "train.deterministic", ""},
    {"training.enable_cpu_offload", Take::kWords, "shard.offload", "true=cpu"},
    {"training.mixed_precision_param", Take::kWords, "precision.preset",
     "bfloat16=bf16_fp32_reduce float32=fp32"},
    {"parallelism.data_parallel_replicate_degree", Take::kInput, "shard.mesh.replicate", ""},
    {"parallelism.fsdp_reshard_after_forward", Take::kWords, "shard.reshard_after_forward",
     "default=true always=true never=false"},
    {"parallelism.tensor_parallel_degree parallelism.pipeline_parallel_degree "
     "parallelism.context_parallel_degree parallelism.expert_parallel_degree "
     "parallelism.expert_tensor_parallel_degree",
     Take::kOne, "", kParallel},
    {"parallelism.", Take::kOwn, "", ""},
    {"checkpoint.interval", Take::kCount, "checkpoint.every_steps", ""},
    {"checkpoint.keep_latest_k", Take::kCopy, "checkpoint.keep_last", ""},
    {"checkpoint.initial_load_path", Take::kNone, "",
     "checkpoint.init_from, or model.from for a Hugging Face folder"},
    {"checkpoint.", Take::kOwn, "", ""},
    {"activation_checkpoint.mode", Take::kWords, "activation_checkpointing.policy",
     "none=none full=full selective=selective"},
    {"activation_checkpoint.selective_ac_option", Take::kInput, "activation_checkpointing.every_n", ""},
    {"activation_checkpoint. compile.", Take::kOwn, "", ""},
    {"float8.filter_fqns quantize.linear.float8.filter_fqns", Take::kNone, "", kFp8Matrices},
    {"float8. quantize.", Take::kOwn, "", ""},
    {"validation.enable", Take::kInput, "data.validation.path", ""},
    {"validation.freq", Take::kCount, "train.validate_every_steps", ""},
    {"validation.steps", Take::kCount, "data.validation.batches", ""},
    {"validation.", Take::kOwn, "", ""},
};

constexpr std::string_view kOtherOptimizer = "optim.kind has no equal of it";
constexpr Equivalent kLlamaFactory[]{
    {"stage", Take::kInput, "stage", ""},
    {"finetuning_type", Take::kInput, "lora.rank", ""},
    {"cutoff_len", Take::kCopy, "data.seq_len", ""},
    {"dataset", Take::kInput, "data.path", ""},
    {"val_size eval_dataset", Take::kInput, "data.validation.path", ""},
    {"neat_packing", Take::kInput, "data.packing", ""},
    {"disable_shuffling", Take::kWords, "data.shuffle", "true=false True=false"},
    {"disable_gradient_checkpointing", Take::kWords, "activation_checkpointing.policy",
     "true=none True=none"},
    {"lora_rank", Take::kCopy, "lora.rank", ""},
    {"lora_target", Take::kInput, "lora.modules", ""},
    {"additional_target", Take::kInput, "lora.also_train", ""},
    {"use_rslora", Take::kCopy, "lora.use_rslora", ""},
    {"adapter_name_or_path", Take::kNone, "", kAdapter},
    {"pref_beta", Take::kInput, "train.dpo.beta", ""},
    {"pref_loss", Take::kInput, "loss_type", ""},
    {"quantization_", Take::kNone, "", kQuantized},
    {"use_galore use_apollo use_badam use_adam_mini use_muon", Take::kNone, "", kOtherOptimizer},
    {"pure_bf16", Take::kNone, "", "precision.preset: bf16_pure, for optim.kind: anyprecision_adamw"},
    {"trust_remote_code", Take::kNone, "", kNoPython},
    {"template", Take::kNone, "", kTemplate},
    {"train_on_prompt", Take::kNone, "", kMasked},
    {"mask_history", Take::kNone, "", "all answers of the assistant are trained"},
    {"max_samples", Take::kNone, "", "prepare files of that many lines"},
    {"mix_strategy interleave_probs", Take::kNone, "", "data.mixture has token files and their weights"},
    {"use_swanlab swanlab_", Take::kNone, "", kTrackers},
    {"dataset_dir media_dir cache_dir tokenized_path overwrite_cache preprocessing_batch_size streaming "
     "buffer_size plot_loss compute_accuracy do_predict flash_attn enable_liger_kernel use_unsloth "
     "use_unsloth_gc use_reentrant_gc low_cpu_mem_usage use_fast_tokenizer print_param_status "
     "include_effective_tokens_per_second include_num_input_tokens_seen",
     Take::kOwn, "", ""},
};

/// Their own, then what they pass to transformers.
std::vector<Equivalent> with_hugging_face(std::span<const Equivalent> own) {
  std::vector<Equivalent> both(own.begin(), own.end());
  both.insert(both.end(), std::begin(kHuggingFace), std::end(kHuggingFace));
  return both;
}

}  // namespace

std::span<const Equivalent> equivalents_of(Trainer trainer) {
  static const std::vector<Equivalent> axolotl = with_hugging_face(kAxolotl);
  static const std::vector<Equivalent> llama_factory = with_hugging_face(kLlamaFactory);
  switch (trainer) {
    case Trainer::kAxolotl: return axolotl;
    case Trainer::kLlamaFactory: return llama_factory;
    case Trainer::kAutoModel: return kAutoModel;
    case Trainer::kTorchtitan: return kTorchtitan;
    case Trainer::kTrainingArguments: return kHuggingFace;
  }
  return {};
}

std::optional<std::string> equal_of(std::string_view words, const std::string& word) {
  for (const std::string_view pair : words_in(words)) {
    const std::size_t equals = pair.find('=');
    if (pair.substr(0, equals) == word) return std::string(pair.substr(equals + 1));
  }
  return std::nullopt;
}

std::vector<DraftLine> defaults_of(Trainer trainer) {
  const bool titan = trainer == Trainer::kTorchtitan;
  std::vector<DraftLine> lines{{"schedule.warmup_start_factor", "0.0", ""},
                               {"optim.betas", titan ? "[0.9, 0.95]" : "[0.9, 0.999]", ""}};
  const auto add = [&](const char* key, const char* value) { lines.push_back({key, value, ""}); };
  if (titan) {
    add("optim.lr", "8.0e-4");
    add("optim.weight_decay", "0.1");
    add("train.validate_every_steps", "10");
    add("precision.preset", "bf16_fp32_reduce");
    add("activation_checkpointing.policy", "selective");
    add("train.micro_batch_size", "8");
    add("data.seq_len", "2048");
    add("train.steps", "10000");
  } else {
    add("optim.lr", "5.0e-5");
    add("optim.weight_decay", trainer == Trainer::kAutoModel ? "0.01" : "0.0");
    add("schedule.kind", trainer == Trainer::kAxolotl ? "warmup_cosine" : "constant");
  }
  if (takes_arguments(trainer)) add("train.micro_batch_size", "8");
  if (trainer == Trainer::kLlamaFactory) {
    add("data.seq_len", "2048");
    add("activation_checkpointing.policy", "full");
  }
  if (trainer == Trainer::kAutoModel) add("precision.preset", "bf16_fp32_reduce");
  for (DraftLine& line : lines) line.comment = kTheirDefault;
  return lines;
}

}  // namespace echelon::recipe
