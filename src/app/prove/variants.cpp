#include "app/prove/variants.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/prove/small_recipe.h"
#include "base/str.h"
#include "shapes/llama_family.h"

namespace echelon::app {

std::string describe(const Recipe& recipe, int ranks) {
  const TrainOptions& train = recipe.train;
  const auto passes = train.global_batch_size / (train.micro_batch_size * ranks);
  const RecomputePolicy recompute = recipe.activation_checkpointing.policy;
  return str(counted(ranks, "rank"), ", ", word_of(recipe.shard.strategy), ", ", counted(passes, "pass"),
             " of ", train.micro_batch_size,
             recompute == RecomputePolicy::kNone ? "" : str(", recompute ", word_of(recompute)));
}

Recipe of_one_gradient(Recipe recipe) {
  OptimOptions optim{.kind = OptimKind::kSgd, .lr = recipe.optim.lr, .weight_decay = 0, .momentum = 0.5};
  for (const auto& [pattern, factor] : recipe.optim.lr_factors) {
    // A factor above 0 counts as 1: it only excepts from patterns that freeze.
    optim.lr_factors.emplace_back(pattern, factor == 0 ? 0.0 : 1.0);
  }
  recipe.optim = std::move(optim);
  recipe.schedule = {.kind = ScheduleKind::kConstant};
  recipe.train.steps = 1;
  recipe.train.clip_grad_norm = 0;
  recipe.train.clip_grad_value = 0;
  recipe.checkpoint.every_steps = 1;
  return recipe;
}

Recipe in_fp32(Recipe recipe) {
  recipe.precision = {.preset = PrecisionPreset::kFp32};
  OptimOptions& optim = recipe.optim;
  if (optim.kind != OptimKind::kAnyPrecisionAdamW) return recipe;
  optim.momentum_dtype = FloatType::kFp32;
  optim.variance_dtype = FloatType::kFp32;
  optim.compensation_dtype = OptimOptions{}.compensation_dtype;
  optim.kahan = false;
  return recipe;
}

Recipe in_precision(Recipe recipe, const PrecisionOptions& own) {
  recipe.precision = own;
  recipe.precision.tf32 = false;               // of GPUs
  recipe.precision.matmul = Matmul::kParam;    // the reference has no fp8
  recipe.precision.master = FloatType::kFp32;  // as SGD needs
  return recipe;
}

bool rounds_in_norms(const Recipe& recipe) {
  const PrecisionOptions& precision = recipe.precision;
  const bool rms = is_llama_family(recipe.model.kind) || recipe.model.kind == ModelKind::kT5;
  const bool exact = precision.output == FloatType::kUnset || precision.output == FloatType::kFp32;
  return rms && exact && types_of(precision).param == FloatType::kBf16 && precision.overrides.empty();
}

Recipe of_losses(Recipe recipe) {
  recipe.optim.lr = 1e-30;
  recipe.train.steps = kProvedSteps;
  recipe.checkpoint.every_steps = kProvedSteps;
  recipe.model.dropout = 0;
  recipe.lora = {};
  recipe.precision.frozen = FloatType::kUnset;
  return recipe;
}

Recipe overflowing(Recipe recipe, const Tensors& gradients) {
  constexpr double kLargest = 65504;  // that fp16 has
  constexpr double kPadding = 16;     // samples are at most so many times as long as what counts of them
  float largest = 0;
  for (const auto& [name, values] : gradients) {
    for (const float value : values) largest = std::max(largest, std::abs(value));
  }
  const TrainOptions& train = recipe.train;
  const std::int64_t parts = train.global_batch_size / train.micro_batch_size;
  recipe.precision.loss_scale =
      std::exp2(std::ceil(std::log2(kLargest * kPadding * static_cast<double>(parts) / largest)));
  recipe.precision.loss_scale_growth_steps = kOverflowSteps;
  recipe.train.steps = kOverflowSteps;
  recipe.checkpoint.every_steps = kOverflowSteps / 2;
  return recipe;
}

Recipe with_strategy(Recipe recipe, ShardStrategy strategy, RecomputePolicy recompute) {
  recipe.shard.strategy = strategy;
  recipe.shard.mesh = {};
  if (strategy == ShardStrategy::kNoShard) recipe.shard.offload = Offload::kNone;
  recipe.shard.reshard_after_forward = {};
  recipe.shard.reshard_overrides.clear();
  recipe.activation_checkpointing = {.policy = recompute};
  return recipe;
}

std::vector<ShardStrategy> other_strategies(const Recipe& recipe) {
  std::vector<ShardStrategy> others;
  for (const ShardStrategy strategy : {ShardStrategy::kFullShard, ShardStrategy::kShardOptimizer,
                                       ShardStrategy::kNoShard, ShardStrategy::kShardGradOp}) {
    if (strategy != recipe.shard.strategy) others.push_back(strategy);
  }
  return others;
}

}  // namespace echelon::app
