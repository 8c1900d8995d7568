#include <limits>

#include "recipe/keys/keys_table.h"

namespace echelon::recipe {

std::vector<Key> run_keys() {
  return {
      {ECHELON_KEY(run.name), Text::kName, "", "Name of the run: its folder, log lines and job name."},
      {ECHELON_KEY(run.dir), Text::kPath, "",
       "Run folder: resolved recipe, metrics, logs, checkpoints. Empty: `runs/<run.name>`."},
      {ECHELON_KEY(run.seed), IntegerRange{0, std::numeric_limits<std::int64_t>::max()}, "",
       "Seed of the initial weights and of the data order."},
      {ECHELON_KEY(run.allow_foreign_folder), kAny, "",
       "Also train in a run folder that belongs to another user, or that others can write to, who can then "
       "change what the run writes, including its checkpoints. Files are never written through links."},
  };
}

std::vector<Key> data_keys() {
  return {
      {ECHELON_KEY(data.kind),
       choices<DataKind>(
           {{DataKind::kTokens, "a file made by `echelon prepare`"},
            {DataKind::kPairs,
             "a file of sources and targets made by `echelon prepare`, for encoder-decoders"},
            {DataKind::kChat,
             "a file of conversations made by `echelon prepare`: what the assistant says is trained"},
            {DataKind::kPreference,
             "a file of pairs of answers made by `echelon prepare`, for [DPO](preference.md)"},
            {DataKind::kSyntheticTokens, "random ids, needs no file"},
            {DataKind::kSyntheticPairs, "random sources and targets made from them, needs no file"},
            {DataKind::kImageFolder, "JPEG and PNG files, a subfolder for each class"},
            {DataKind::kIdx, "images and labels in the format of MNIST, plain or gzip"},
            {DataKind::kSyntheticImages, "computed images, needs no file"}}),
       "", "Where training samples come from."},
      {ECHELON_KEY(data.path), Text::kPath, "",
       "Token file, images file of `idx`, or folder; kinds that are not `synthetic_...` need it, or "
       "`mixture`."},
      {ECHELON_KEY(data.mixture), NumberRange{1e-6, 1e6}, "",
       "Token files and sampling weights, instead of `path`. Each file is shuffled and repeated "
       "independently; proportions are exact.",
       Text::kPath},
      {ECHELON_KEY(data.tokenizer), Text::kPath, "",
       "sentencepiece model or tokenizer.json. Empty: `tokenizer.model` or `tokenizer.json` beside "
       "`data.path` when it is there."},
      {ECHELON_KEY(data.seq_len), IntegerRange{1, 16'777'216}, "tokens",
       "Length of the sequences trained on."},
      {ECHELON_KEY(data.target_len), IntegerRange{1, 16'777'216}, "tokens",
       "Pairs: largest length of a target; `seq_len` is that of a source. Longer ones are truncated and keep "
       "their EOS."},
      {ECHELON_KEY(data.full_length), kAny, "",
       "`synthetic_pairs`: every source has `seq_len` and every target `target_len` tokens; else lengths "
       "vary."},
      {ECHELON_KEY(data.packing),
       choices<Packing>(
           {{Packing::kStream, "windows over the concatenated documents"},
            {Packing::kDocuments, "the same windows; attention does not cross documents"},
            {Packing::kPad, "one document per sample, truncated at `seq_len`; no padding is computed"}}),
       "", "How documents become samples."},
      {ECHELON_KEY(data.shuffle), kAny, "", "`false`: samples in file order."},
      {ECHELON_KEY(data.workers), IntegerRange{0, 1024}, "threads",
       "Loader threads per rank, each of which reads one micro-batch ahead; their number does not affect the "
       "data. 0: batches are read when they are needed."},
      {ECHELON_KEY(data.prefetch_batches), IntegerRange{1, 1024}, "micro-batches",
       "Number of micro-batches that a rank reads ahead, at least one for each of `data.workers`."},
  };
}

std::vector<Key> validation_keys() {
  return {
      {ECHELON_KEY(data.validation.path), Text::kPath, "",
       "File or folder for validation, of the same kind. Empty: no validation."},
      {ECHELON_KEY(data.validation.sources), Text::kPath, "",
       "Map of names to token files, such as `{code: data/code/valid.tok}`, instead of `path`. Metrics are "
       "called `validation_loss/NAME`; `validation_loss` is the mean over the targets of all.",
       Text::kName},
      {ECHELON_KEY(data.validation.samples), IntegerRange{0, 1'000'000'000}, "images",
       "`synthetic_images`: number of generated images, none of which is in the training data. 0: no "
       "validation."},
      {ECHELON_KEY(data.validation.labels), Text::kPath, "",
       "`idx`: labels file of `data.validation.path`. Empty: the one beside it."},
      {ECHELON_KEY(data.validation.batches), IntegerRange{0, 1'000'000}, "global batches",
       "Global batches per validation pass; of images a sample over all classes. 0, or more than "
       "there are: the whole set, each sample once."},
      {ECHELON_KEY(data.validation.generate), IntegerRange{0, 1'000'000'000}, "samples",
       "`kind: pairs`: after each validation pass the model generates texts for this many sources, and "
       "`rouge1`, `rouge2` and `rougeL` compare them with the targets. 0: none."},
      {ECHELON_KEY(data.validation.beams), IntegerRange{1, 1024}, "",
       "`generate`: continuations that the search keeps. 1: the likeliest token each time."},
      {ECHELON_KEY(data.validation.max_new_tokens), IntegerRange{1, 16'777'216}, "tokens",
       "`generate`: longest generated text."},
  };
}

namespace {

std::vector<Key> save_keys() {
  return {
      {ECHELON_KEY(checkpoint.every_steps), IntegerRange{0, kMaxSteps}, "optimizer steps",
       "Checkpoint interval. 0: not by steps. A run always saves at its end and on a stop signal."},
      {ECHELON_KEY(checkpoint.every_minutes), NumberRange{0.0, 1e6}, "minutes",
       "Checkpoint interval by time. 0: not by time."},
      {ECHELON_KEY(checkpoint.auto_interval), kAny, "",
       "Checkpoint interval that minimizes the lost time: the square root of 2 x cost of a save x "
       "`mean_time_to_failure_hours` (Young, Daly), never less than the time a save takes."},
      {ECHELON_KEY(checkpoint.mean_time_to_failure_hours), NumberRange{0.0, 1e6, true, false}, "hours",
       "`auto_interval`: mean time between failures of the whole job; it doubles when the number of nodes "
       "halves."},
      {ECHELON_KEY(checkpoint.async),
       Choices{{{"true", "training resumes once the state is copied in memory"},
                {"false", "training blocks until the save is durable; no extra memory"}},
               {}},
       "", "Write checkpoints while training goes on."},
      {ECHELON_KEY(checkpoint.max_write_mb_per_s), NumberRange{0.0, 1e6}, "MB/s",
       "Limit on each rank's write rate, for a disk that others use. 0: none."},
      {ECHELON_KEY(checkpoint.timeout_s), IntegerRange{1, 1'000'000}, "seconds",
       "A save that takes longer has failed."},
      {ECHELON_KEY(checkpoint.max_failures), IntegerRange{1, 1'000'000}, "saves",
       "The run ends with exit code 5 after this many consecutive failed saves."},
      {ECHELON_KEY(checkpoint.memory_every_steps), IntegerRange{0, kMaxSteps}, "optimizer steps",
       "Optimizer steps between [saves to the memory of the nodes](memory_checkpoints.md), from which a job "
       "that lost ranks or nodes continues. 0: none."},
      {ECHELON_KEY(checkpoint.memory_dir), Text::kPath, "",
       "Folder in memory, a tmpfs on every node, for `memory_every_steps`. An absolute path."},
      {ECHELON_KEY(checkpoint.memory_limit_gib), NumberRange{0.0, 1e6}, "GiB",
       "Limit on what memory checkpoints take on each node, copies of another node included; a run that "
       "needs more is refused. 0: what the node has left."},
  };
}

std::vector<Key> keep_keys() {
  return {
      {ECHELON_KEY(checkpoint.keep_last), IntegerRange{0, 1'000'000}, "checkpoints",
       "Number of newest checkpoints to keep; the newest two are always kept. 0: keep all."},
      {ECHELON_KEY(checkpoint.keep_every_steps), IntegerRange{0, kMaxSteps}, "optimizer steps",
       "Checkpoints of steps that are multiples of this are also kept. 0: none."},
      {ECHELON_KEY(checkpoint.keep_best), kAny, "",
       "Save at every new lowest validation loss, or highest score of `evaluation.best`, and keep the best "
       "one."},
      {ECHELON_KEY(checkpoint.resume),
       choices<Resume>({{Resume::kAuto, "the newest committed checkpoint of the run folder, if any"},
                        {Resume::kNever, "refuse a run folder that has one when the job first starts"},
                        {Resume::kMust, "refuse a run folder that has none"}}),
       "", "What a starting run continues from."},
      {ECHELON_KEY(checkpoint.init_from), Text::kPath, "",
       "Checkpoint (step folder, run folder, or the output of `echelon-ckpt import`) whose weights a new run "
       "starts from; optimizer and data start fresh. Ignored when the run folder has a checkpoint. Empty: "
       "initial weights by `run.seed`."},
      {ECHELON_KEY(checkpoint.init_partial), kAny, "",
       "Let `init_from` name a checkpoint of another model and take the weights that fit. Those that this "
       "model does not have are dropped, those that the checkpoint does not have in the same shape start "
       "fresh; the log names them."},
      {ECHELON_KEY(checkpoint.consolidate),
       choices<Consolidate>({{Consolidate::kNone, "nothing"},
                             {Consolidate::kHdf5, "`consolidated-step-N.h5` in the run folder"},
                             {Consolidate::kSafetensors,
                              "`consolidated-step-N/` in the run folder, which transformers opens"}}),
       "", "What a finished run converts its last checkpoint to, or with `keep_best` its best."},
  };
}

}  // namespace

std::vector<Key> checkpoint_keys() {
  return joined({save_keys(), keep_keys()});
}

std::vector<Key> metrics_keys() {
  return {
      {ECHELON_KEY(metrics.every_steps), IntegerRange{1, kMaxSteps}, "optimizer steps",
       "Interval of the lines in `metrics.jsonl` and in the log."},
      {ECHELON_KEY(metrics.unit_grad_norms), kAny, "", "Also log the norm of each unit's gradients."},
      {ECHELON_KEY(metrics.tensorboard), kAny, "",
       "Also write the lines as TensorBoard event files, in `tensorboard/` of the run folder."},
      {ECHELON_KEY(metrics.prometheus), kAny, "",
       "Also write the newest line for Prometheus, to `metrics.prom` in the run folder."},
      {ECHELON_KEY(metrics.csv), kAny, "", "Also write the lines to `metrics.csv` in the run folder."},
  };
}

std::vector<Key> cluster_keys() {
  return {
      {ECHELON_KEY(cluster.timeout_s), IntegerRange{1, 604'800}, "seconds",
       "Longest wait for other ranks in one start-up exchange or one collective."},
      {ECHELON_KEY(cluster.heartbeat_interval_s), NumberRange{0.05, 60.0}, "seconds",
       "Heartbeat interval; heartbeats use a TCP connection of their own."},
      {ECHELON_KEY(cluster.heartbeat_timeout_s), NumberRange{0.0, 3600.0}, "seconds",
       "A rank or node without a heartbeat for this long is lost: the run ends with exit code 7 and names "
       "it. 0: no heartbeats; then only `timeout_s` ends a run whose peer is gone."},
      {ECHELON_KEY(cluster.straggler_factor), NumberRange{0.0, 1000.0}, "",
       "Warn when a rank's time per step exceeds this multiple of the median of all ranks for 10 consecutive "
       "steps. 0: never."},
      {ECHELON_KEY(cluster.shrink),
       choices<Shrink>({{Shrink::kNever, "the job waits in the queue for as many nodes as before"},
                        {Shrink::kAllow,
                         "the run goes on with fewer copies of the state, where the batch can be divided "
                         "among their ranks; `global_batch_size` stays"}}),
       "", "What happens when a job under Slurm loses nodes and has no spare ones."},
      {ECHELON_KEY(cluster.capacity_block_end), Text::kTime, "",
       "End of the AWS capacity block that the nodes belong to, such as `2026-03-01T11:30:00Z`. AWS takes "
       "them back 30 minutes before it; the run saves and stops ahead of that. Empty: there is none."},
      {ECHELON_KEY(cluster.stop_margin_s), NumberRange{0.0, 86'400.0}, "seconds",
       "A run stops before the end of the job when one more step, a save and this margin no longer fit."},
  };
}

}  // namespace echelon::recipe
