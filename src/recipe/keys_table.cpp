#include <limits>

#include "recipe/keys.h"

// The field's own name is the key's name, so the two cannot drift apart.
#define ECHELON_KEY(field) #field, [](Recipe & recipe) -> Slot { return &recipe.field; }

namespace echelon::recipe {
namespace {

constexpr std::int64_t kMaxSteps = 1'000'000'000'000;
constexpr NumberRange kAboveZeroToOne{0.0, 1.0, true, false};

std::vector<Key> run_keys() {
  return {
      {ECHELON_KEY(run.name), Text::kName, "", "Name of the run: its folder, log lines and job name."},
      {ECHELON_KEY(run.dir), Text::kPath, "",
       "Run folder: resolved recipe, metrics, logs, checkpoints. Empty: `runs/<run.name>`."},
      {ECHELON_KEY(run.seed), IntegerRange{0, std::numeric_limits<std::int64_t>::max()}, "",
       "Seed of the initial weights and of the data order."},
  };
}

std::vector<Key> model_keys() {
  return {
      {ECHELON_KEY(model.kind),
       Choices{{{"llama", "decoder with RMSNorm, rotary positions, grouped-query attention, SwiGLU"}}, {}},
       "", "Architecture."},
      {ECHELON_KEY(model.vocab_size), IntegerRange{2, 10'000'000}, "tokens",
       "Size of the vocabulary; every token id in the data is below it."},
      {ECHELON_KEY(model.hidden_size), IntegerRange{1, 1'048'576}, "",
       "Width of the residual stream; a multiple of `heads`."},
      {ECHELON_KEY(model.intermediate_size), IntegerRange{1, 16'777'216}, "",
       "Inner width of the SwiGLU block."},
      {ECHELON_KEY(model.layers), IntegerRange{1, 10'000}, "", "Number of decoder layers."},
      {ECHELON_KEY(model.heads), IntegerRange{1, 65'536}, "", "Attention (query) heads per layer."},
      {ECHELON_KEY(model.kv_heads), IntegerRange{1, 65'536}, "",
       "Key and value heads; `heads` is a multiple of it."},
      {ECHELON_KEY(model.max_positions), IntegerRange{1, 16'777'216}, "tokens",
       "Longest sequence the model takes."},
      {ECHELON_KEY(model.norm_eps), kAboveZeroToOne, "", "Added to the mean square inside RMSNorm."},
      {ECHELON_KEY(model.rope_theta), NumberRange{1.0, 1e12}, "", "Base of the rotary position frequencies."},
      {ECHELON_KEY(model.tie_embeddings), {}, "", "The output head shares the embedding's weight."},
      {ECHELON_KEY(model.init_std), NumberRange{0.0, 10.0, true, false}, "",
       "Standard deviation of the initial weights."},
  };
}

std::vector<Key> shard_keys() {
  return {
      {ECHELON_KEY(shard.strategy),
       Choices{{{"full_shard", "weights, gradients and optimizer state are split over all ranks"}},
               {"grad_op", "optimizer_only", "hybrid", "hybrid_shard", "none"}},
       "", "What is split over the ranks."},
      {ECHELON_KEY(shard.wrap.policy),
       Choices{{{"transformer", "one unit per layer, one for the rest"}, {"whole", "the model is one unit"}},
               {"size"}},
       "", "Which parameters are gathered together."},
      {ECHELON_KEY(shard.reshard_after_forward),
       {},
       "",
       "Give gathered weights back after forward; `false` keeps them until their backward: more memory, less "
       "traffic."},
      {ECHELON_KEY(shard.forward_prefetch), IntegerRange{0, 64}, "units",
       "Units gathered ahead of the one computing."},
      {ECHELON_KEY(shard.backward_prefetch),
       Choices{{{"pre", "ask for the next unit before this one's backward"},
                {"post", "ask for it after this one's backward"},
                {"none", "ask for it when it is needed"}},
               {}},
       "", "When backward asks for the next unit."},
      {ECHELON_KEY(shard.offload),
       Choices{{{"none", "everything stays in the device's memory"}}, {"params", "optimizer", "cpu", "all"}},
       "", "What is kept in host memory."},
  };
}

std::vector<Key> precision_keys() {
  return {
      {ECHELON_KEY(precision.param),
       Choices{{{"bf16", "bfloat16"}, {"fp32", "single precision"}}, {"fp16", "fp8"}}, "",
       "Type of weights and activations while computing; the master weights are fp32 always."},
      {ECHELON_KEY(precision.reduce), Choices{{{"fp32", "single precision"}}, {"bf16", "fp16"}}, "",
       "Type in which gradients are summed over ranks."},
      {ECHELON_KEY(precision.buffer), Choices{{{"bf16", "bfloat16"}, {"fp32", "single precision"}}, {"fp16"}},
       "", "Type of constant tables (rotary cos and sin)."},
  };
}

std::vector<Key> activation_checkpointing_keys() {
  return {
      {ECHELON_KEY(activation_checkpointing.policy),
       Choices{{{"none", "every activation is kept until its backward"}},
               {"full", "selective", "every_layer"}},
       "", "Which activations are computed again in backward instead of kept."},
  };
}

std::vector<Key> data_keys() {
  return {
      {ECHELON_KEY(data.kind),
       Choices{{{"tokens", "a file made by `echelon prepare`"},
                {"synthetic_tokens", "random ids, needs no file"}},
               {}},
       "", "Where training tokens come from."},
      {ECHELON_KEY(data.path), Text::kPath, "", "Token file; needed for `kind: tokens`."},
      {ECHELON_KEY(data.tokenizer), Text::kPath, "",
       "sentencepiece model. Empty: `tokenizer.model` beside `data.path` when it is there."},
      {ECHELON_KEY(data.seq_len), IntegerRange{1, 16'777'216}, "tokens",
       "Length of the sequences trained on."},
      {ECHELON_KEY(data.shuffle), {}, "", "`false`: samples in file order."},
      {ECHELON_KEY(data.validation.path), Text::kPath, "",
       "Token file for validation. Empty: no validation."},
      {ECHELON_KEY(data.validation.batches), IntegerRange{1, 1'000'000}, "global batches",
       "Size of one validation pass."},
  };
}

std::vector<Key> optim_keys() {
  return {
      {ECHELON_KEY(optim.kind),
       Choices{{{"adamw", "AdamW, decoupled weight decay"}}, {"adam", "sgd", "adafactor", "lion", "muon"}},
       "", "Optimizer."},
      {ECHELON_KEY(optim.lr), NumberRange{0.0, 100.0, true, false}, "",
       "Peak learning rate; `schedule` scales it by step."},
      {ECHELON_KEY(optim.betas), NumberRange{0.0, 1.0, false, true}, "",
       "Decay of the averages of gradient and squared gradient."},
      {ECHELON_KEY(optim.eps), kAboveZeroToOne, "", "Added to the root of the second average."},
      {ECHELON_KEY(optim.weight_decay), NumberRange{0.0, 100.0}, "",
       "Decoupled weight decay, times the learning rate."},
  };
}

std::vector<Key> schedule_keys() {
  return {
      {ECHELON_KEY(schedule.kind),
       Choices{{{"constant", "optim.lr at every step"},
                {"warmup_cosine", "linear up to optim.lr, then a cosine down to min_lr"}},
               {"linear", "cosine", "wsd"}},
       "", "Learning rate by step."},
      {ECHELON_KEY(schedule.warmup_steps), IntegerRange{0, kMaxSteps}, "steps",
       "Steps of linear warm-up; at most `train.steps`."},
      {ECHELON_KEY(schedule.warmup_start_factor), NumberRange{0.0, 1.0}, "",
       "Warm-up starts at this share of `optim.lr`."},
      {ECHELON_KEY(schedule.min_lr), NumberRange{0.0, 100.0}, "",
       "Learning rate at the last step; at most `optim.lr`."},
  };
}

std::vector<Key> train_keys() {
  return {
      {ECHELON_KEY(train.device),
       Choices{{{"auto", "a GPU for each rank when there is one, else CPU"},
                {"cpu", "CPU"},
                {"cuda", "NVIDIA GPU, required"}},
               {}},
       "", "Where the run computes."},
      {ECHELON_KEY(train.steps), IntegerRange{1, kMaxSteps}, "optimizer steps", "Length of the run."},
      {ECHELON_KEY(train.micro_batch_size), IntegerRange{1, 1'000'000}, "sequences",
       "Per rank and forward pass."},
      {ECHELON_KEY(train.global_batch_size), IntegerRange{1, 1'000'000'000}, "sequences",
       "Per optimizer step over all ranks; a multiple of `micro_batch_size` x ranks, the quotient is "
       "gradient accumulation."},
      {ECHELON_KEY(train.clip_grad_norm), NumberRange{0.0, 1e9}, "",
       "Largest gradient norm; larger ones are scaled down. 0: no clipping."},
      {ECHELON_KEY(train.validate_every_steps), IntegerRange{0, kMaxSteps}, "optimizer steps",
       "Validation interval. 0: never."},
      {ECHELON_KEY(train.threads_per_rank), IntegerRange{0, 4096}, "threads",
       "Compute threads. 0: this node's cores / ranks on it."},
  };
}

std::vector<Key> checkpoint_keys() {
  return {
      {ECHELON_KEY(checkpoint.every_steps), IntegerRange{0, kMaxSteps}, "optimizer steps",
       "Checkpoint interval. 0: only at the end and on a stop signal."},
      {ECHELON_KEY(checkpoint.keep_last), IntegerRange{0, 1'000'000}, "checkpoints",
       "Older committed ones are removed. 0: keep all."},
      {ECHELON_KEY(checkpoint.async), Choices{{{"false", "a save ends before training goes on"}}, {"true"}},
       "", "Write checkpoints while training goes on."},
      {ECHELON_KEY(checkpoint.resume),
       Choices{{{"auto", "the newest committed checkpoint of the run folder, if any"},
                {"never", "refuse a run folder that has one"},
                {"must", "refuse a run folder that has none"}},
               {}},
       "", "What a starting run continues from."},
  };
}

std::vector<Key> metrics_keys() {
  return {
      {ECHELON_KEY(metrics.every_steps), IntegerRange{1, kMaxSteps}, "optimizer steps",
       "A line in `metrics.jsonl` and in the log every so many."},
  };
}

std::vector<Key> cluster_keys() {
  return {
      {ECHELON_KEY(cluster.timeout_s), IntegerRange{1, 604'800}, "seconds",
       "Longest wait for other ranks in one start-up exchange or one collective."},
  };
}

}  // namespace

const std::vector<Key>& keys() {
  static const std::vector<Key> table = [] {
    std::vector<Key> all;
    for (std::vector<Key> part : {run_keys(), model_keys(), shard_keys(), precision_keys(),
                                  activation_checkpointing_keys(), data_keys(), optim_keys(), schedule_keys(),
                                  train_keys(), checkpoint_keys(), metrics_keys(), cluster_keys()}) {
      all.insert(all.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
    }
    return all;
  }();
  return table;
}

const std::vector<Section>& sections() {
  static const std::vector<Section> table{
      {"run", "Name, folder and seed of the run."},
      {"model", "What is trained. The defaults describe a 179 M parameter Llama."},
      {"shard", "How weights, gradients and optimizer state are split over ranks."},
      {"shard.wrap", "Which parameters form a unit: the amount that is gathered at once."},
      {"precision", "Number types. Master weights and optimizer state are fp32 always."},
      {"activation_checkpointing", "Memory against recomputation."},
      {"data", "What it is trained on."},
      {"data.validation", "What it is measured on."},
      {"optim", "The optimizer."},
      {"schedule", "The learning rate by step."},
      {"train", "Device, length and batch of the run."},
      {"checkpoint", "When state is saved and what a run continues from."},
      {"metrics", "What is written down while training."},
      {"cluster", "How ranks wait for each other."},
  };
  return table;
}

}  // namespace echelon::recipe
