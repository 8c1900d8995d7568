#include <limits>

#include "recipe/keys_table.h"

namespace echelon::recipe {

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

std::vector<Key> checkpoint_keys() {
  return {
      {ECHELON_KEY(checkpoint.every_steps), IntegerRange{0, kMaxSteps}, "optimizer steps",
       "Checkpoint interval. 0: only at the end and on a stop signal."},
      {ECHELON_KEY(checkpoint.keep_last), IntegerRange{0, 1'000'000}, "checkpoints",
       "Older committed ones are removed, but never the newest two. 0: keep all."},
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

}  // namespace echelon::recipe
