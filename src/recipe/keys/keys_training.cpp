#include "recipe/keys/keys_table.h"

namespace echelon::recipe {
namespace {

/// First the keys that all optimizers use, then those of single kinds.
std::vector<Key> common_optim_keys() {
  return {
      {ECHELON_KEY(optim.kind),
       choices<OptimKind>(
           {{OptimKind::kAdamW, "AdamW, decoupled weight decay (Loshchilov & Hutter)"},
            {OptimKind::kAnyPrecisionAdamW,
             "AdamW with states in low precision and Kahan-compensated weights"},
            {OptimKind::kSgd, "stochastic gradient descent with momentum"},
            {OptimKind::kAdadelta, "Adadelta (Zeiler)"},
            {OptimKind::kMuon, "Muon (Jordan): orthogonalized momentum of matrices; AdamW for all else"}},
           {"adam", "adafactor", "lion"}),
       "", "Optimizer."},
      {ECHELON_KEY(optim.lr), NumberRange{0.0, 100.0, true, false}, "",
       "Peak learning rate; `schedule` scales it by step."},
      {ECHELON_KEY(optim.betas), kBelowOne, "",
       "`adamw`, `anyprecision_adamw`, AdamW of `muon`: decay of the averages of gradient and squared "
       "gradient."},
      {ECHELON_KEY(optim.eps), kAboveZeroToOne, "",
       "Added to the root of the second average; `adadelta`: default 1e-6."},
      {ECHELON_KEY(optim.weight_decay), NumberRange{0.0, 100.0}, "",
       "Weight decay; that of AdamW and Muon is decoupled and multiplied by the learning rate. `sgd`, "
       "`adadelta`: default 0."},
  };
}

std::vector<Key> own_optim_keys() {
  const Choices low_or_single = float_types({FloatType::kBf16, FloatType::kFp32});
  return {
      {ECHELON_KEY(optim.momentum), kBelowOne, "", "`sgd`: momentum coefficient."},
      {ECHELON_KEY(optim.nesterov), kAny, "", "`sgd`: Nesterov's momentum."},
      {ECHELON_KEY(optim.rho), kBelowOne, "", "`adadelta`: decay of its two averages."},
      {ECHELON_KEY(optim.momentum_dtype), low_or_single, "",
       "`anyprecision_adamw`: type of the average of the gradient."},
      {ECHELON_KEY(optim.variance_dtype), low_or_single, "",
       "`anyprecision_adamw`: type of the average of the squared gradient."},
      {ECHELON_KEY(optim.compensation_dtype), low_or_single, "",
       "`anyprecision_adamw`: type of the Kahan compensation."},
      {ECHELON_KEY(optim.kahan), kAny, "",
       "`anyprecision_adamw`: Kahan summation: rounding errors of the weights are kept and added later."},
  };
}

std::vector<Key> muon_keys() {
  return {
      {ECHELON_KEY(optim.muon.momentum), kBelowOne, "",
       "`muon`: decay of the average of the gradient that is orthogonalized."},
      {ECHELON_KEY(optim.muon.nesterov), kAny, "", "`muon`: Nesterov's momentum."},
      {ECHELON_KEY(optim.muon.ns_steps), IntegerRange{1, 99}, "iterations",
       "`muon`: Newton-Schulz iterations of a matrix."},
      {ECHELON_KEY(optim.muon.scale),
       choices<MuonScale>({{MuonScale::kMatchAdamW,
                            "0.2 sqrt(max(rows, columns)): updates as large as AdamW's, so "
                            "its learning rates and decay fit"},
                           {MuonScale::kSpectral, "sqrt(max(1, rows / columns)), Jordan's"}}),
       "", "`muon`: factor on the learning rate of a matrix."},
      {ECHELON_KEY(optim.muon.adamw), Text::kPattern, "",
       "`muon`: parameters that AdamW updates, beside embeddings, the output head and whatever is no "
       "matrix."},
  };
}

std::vector<Key> parameter_keys() {
  return {
      {ECHELON_KEY(optim.no_decay), Text::kPattern, "", "Parameters without weight decay."},
      {ECHELON_KEY(optim.lr_factors), NumberRange{0.0, 1000.0}, "",
       "Factor on the learning rate of the parameters that match; of several matching patterns the last one "
       "applies. 0: the parameters are frozen. They have no gradient, which therefore counts in neither norm "
       "nor clipping, no weight decay and no optimizer state; units that are frozen as a whole send none."},
      {ECHELON_KEY(optim.ema_decay), kBelowOne, "",
       "Decay of an exponential moving average of the weights, sharded like them; "
       "[exported](echelon_ckpt.md#export-ckpt) with `--ema`. 0: none."},
  };
}

}  // namespace

std::vector<Key> optim_keys() {
  return joined({common_optim_keys(), own_optim_keys(), muon_keys(), parameter_keys()});
}

std::vector<Key> schedule_keys() {
  return {
      {ECHELON_KEY(schedule.kind),
       choices<ScheduleKind>(
           {{ScheduleKind::kConstant, "optim.lr at every step"},
            {ScheduleKind::kLinearWarmup, "linear up to optim.lr, then constant"},
            {ScheduleKind::kStep, "times `gamma` every `step_size` steps"},
            {ScheduleKind::kCosine, "a cosine from optim.lr down to min_lr"},
            {ScheduleKind::kWarmupCosine, "linear up to optim.lr, then a cosine down to min_lr"},
            {ScheduleKind::kWarmupStableDecay,
             "linear up to optim.lr, constant, then linearly down to min_lr over the last `decay_steps`"},
            {ScheduleKind::kSequence, "the phases of `sequence`, one after the other"}}),
       "", "Learning rate by step."},
      {ECHELON_KEY(schedule.warmup_steps), IntegerRange{0, kMaxSteps}, "steps",
       "Steps of linear warm-up; at most `train.steps`."},
      {ECHELON_KEY(schedule.warmup_start_factor), NumberRange{0.0, 1.0}, "",
       "Warm-up starts at this share of `optim.lr`."},
      {ECHELON_KEY(schedule.min_lr), NumberRange{0.0, 100.0}, "",
       "Learning rate to which a decay falls, reached behind its last step; at most `optim.lr`."},
      {ECHELON_KEY(schedule.step_size), IntegerRange{1, kMaxSteps}, "steps",
       "`step`: steps between two decays."},
      {ECHELON_KEY(schedule.step_epochs), IntegerRange{0, 1'000'000}, "epochs",
       "`step`: epochs between two decays, instead of `step_size`. 0: `step_size` applies."},
      {ECHELON_KEY(schedule.gamma), kAboveZeroToOne, "", "`step`: factor of each decay."},
      {ECHELON_KEY(schedule.decay_steps), IntegerRange{0, kMaxSteps}, "steps",
       "`warmup_stable_decay`: length of the final decay."},
      {ECHELON_KEY(schedule.sequence), Text::kPhase, "",
       "`sequence`: phases of the run, each `constant`, `linear_warmup`, `linear_decay`, `cosine` or `step` "
       "and its number of steps; the last may leave the number out and then lasts to the end of the run."},
  };
}

std::vector<Key> train_keys() {
  return {
      {ECHELON_KEY(train.device),
       choices<TrainDevice>(
           {{TrainDevice::kAuto, "a GPU for each rank when there is one, else CPU"},
            {TrainDevice::kCpu, "CPU"},
            {TrainDevice::kCuda, "NVIDIA GPU, required"},
            {TrainDevice::kCudaShared,
             "NVIDIA GPU, required; ranks may share one, their collectives go through the host"}}),
       "", "Where the run computes."},
      {ECHELON_KEY(train.steps), IntegerRange{1, kMaxSteps}, "optimizer steps", "Length of the run."},
      {ECHELON_KEY(train.epochs), IntegerRange{0, 1'000'000}, "epochs",
       "Length of the run in passes over the data, instead of `steps`. No sample is dropped at the end of an "
       "epoch: a step may contain the end of one epoch and the beginning of the next. 0: `steps` applies."},
      {ECHELON_KEY(train.micro_batch_size), IntegerRange{1, 1'000'000}, "sequences",
       "Per rank and forward pass."},
      {ECHELON_KEY(train.global_batch_size), IntegerRange{1, 1'000'000'000}, "sequences",
       "Per optimizer step over all ranks; a multiple of `micro_batch_size` x ranks, the quotient is "
       "gradient accumulation."},
      {ECHELON_KEY(train.reduce_gradients),
       choices<ReduceGradients>({{ReduceGradients::kEachMicroBatch, "after every backward: less memory"},
                                 {ReduceGradients::kLastMicroBatch,
                                  "once per step: less traffic, whole gradients are kept between passes"}}),
       "", "When gradients are summed over ranks while they accumulate."},
      {ECHELON_KEY(train.clip_grad_norm), NumberRange{0.0, 1e9}, "",
       "Largest gradient norm; larger ones are scaled down. 0: no clipping."},
      {ECHELON_KEY(train.clip_grad_value), NumberRange{0.0, 1e9}, "",
       "Largest magnitude of a gradient element; larger ones are clamped. 0: no clipping."},
      {ECHELON_KEY(train.non_finite),
       choices<NonFinite>({{NonFinite::kStop, "the run fails"}, {NonFinite::kSkip, "the step is skipped"}}),
       "", "What happens at a step whose loss or gradients are not finite."},
      {ECHELON_KEY(train.max_skipped_steps), IntegerRange{1, 1'000'000}, "optimizer steps",
       "`skip`: the run stops after more consecutive skipped steps than this. Steps in which no target "
       "counts are always skipped, and stop the run alike."},
      {ECHELON_KEY(train.validate_every_steps), IntegerRange{0, kMaxSteps}, "optimizer steps",
       "Validation interval. 0: never."},
      {ECHELON_KEY(train.validate_every_epochs), IntegerRange{0, 1'000'000}, "epochs",
       "Validation interval in passes over the data; also at the end of the run. 0: not by epochs."},
      {ECHELON_KEY(train.deterministic), kAny, "",
       "GPU: only kernels that give the same bits on every run, so that a resumed run is bitwise equal to an "
       "uninterrupted one; slower. CPU runs always are."},
      {ECHELON_KEY(train.threads_per_rank), IntegerRange{0, 4096}, "threads",
       "Compute threads. 0: `OMP_NUM_THREADS`, or where that is not set, this node's cores / ranks on it."},
      {ECHELON_KEY(train.dpo.beta), NumberRange{0.0, 1e3, true, false}, "",
       "How strongly the model is held to the one that the run begins with; more keeps it closer."},
  };
}

}  // namespace echelon::recipe
