#include "app/doctor/checks/recipe_size.h"

#include <algorithm>
#include <limits>

#include "shapes/lora.h"

namespace echelon::app::doctor {
namespace {

double bytes_of(FloatType type) {
  return type == FloatType::kFp32 ? 4 : 2;
}

/// Bytes per parameter of the optimizer state and the averaged weights; those of Muon beside its matrices.
double state_bytes(const OptimOptions& optim) {
  const double averaged = optim.ema_decay > 0 ? 4 : 0;
  switch (optim.kind) {
    case OptimKind::kSgd: return averaged + (optim.momentum == 0.0 ? 0 : 4);
    case OptimKind::kAdamW:
    case OptimKind::kAdadelta:
    case OptimKind::kMuon: return averaged + 8;  // two fp32 values per parameter
    case OptimKind::kAnyPrecisionAdamW: break;
  }
  return averaged + bytes_of(optim.momentum_dtype) + bytes_of(optim.variance_dtype) +
         (optim.kahan ? bytes_of(optim.compensation_dtype) : 0);
}

/// Bytes per parameter: the mean over all of them.
struct MeanBytes {
  double saved = 0;  ///< weights, optimizer state, averaged weights
  double gradient = 0;
};

MeanBytes mean_bytes(const Recipe& recipe) {
  constexpr double kGradient = 4;
  constexpr double kSecondMoment = 4;  // that a matrix of Muon does not have
  const OptimOptions& optim = recipe.optim;
  const PrecisionTypes types = types_of(recipe.precision);
  const double of_frozen = bytes_of(types.frozen);
  const double of_trained = bytes_of(types.master) + state_bytes(optim);
  double all = 0;
  MeanBytes sum;
  for (const TensorShape& tensor : tensors_of(recipe.model, recipe.lora)) {
    double numel = 1;
    for (const std::int64_t size : tensor.dimensions) numel *= static_cast<double>(size);
    all += numel;
    if (!is_trained(recipe.lora, tensor.name) || optim.freezes(tensor.name)) {
      sum.saved += numel * of_frozen;
      continue;
    }
    const bool of_muon = optim.kind == OptimKind::kMuon && !matrix_rows(tensor).empty() &&
                         !is_adapter(tensor.name) && !matches_any(optim.muon.adamw, tensor.name);
    sum.saved += numel * (of_trained - (of_muon ? kSecondMoment : 0));
    sum.gradient += numel * kGradient;
  }
  return {sum.saved / all, sum.gradient / all};
}

}  // namespace

std::optional<RecipeSize> size_of(const Recipe& recipe, int ranks, int ranks_per_node) {
  std::optional<std::int64_t> parameters = parameter_count(recipe.model);
  if (!parameters) return std::nullopt;
  *parameters += adapter_parameters(recipe.model, recipe.lora).value_or(0);
  const std::int64_t group =
      std::clamp<std::int64_t>(ranks_of_a_copy(recipe.shard, ranks, ranks_per_node), 1, ranks);
  const std::int64_t mine = (*parameters + group - 1) / group;
  const MeanBytes mean = mean_bytes(recipe);
  const auto bytes = [](std::int64_t count, double of_each) {
    return static_cast<std::uint64_t>(static_cast<double>(count) * of_each);
  };
  return RecipeSize{.checkpoint_bytes = bytes(*parameters, mean.saved),
                    .rank_bytes = bytes(mine, mean.saved + mean.gradient),
                    .staging_bytes = recipe.checkpoint.async ? bytes(mine, mean.saved) : 0};
}

std::optional<std::int64_t> checkpoints_kept(const Recipe& recipe) {
  const CheckpointOptions& options = recipe.checkpoint;
  const bool at_other_times = options.every_minutes > 0 || options.auto_interval || options.keep_best;
  if (options.every_steps == 0 && !at_other_times) return 1;  // the one at the end
  const std::int64_t steps = recipe.train.steps;
  const bool steps_known = recipe.train.epochs == 0;  // else they depend on the data
  constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = kUnbounded;
  if (steps_known && !at_other_times)
    most = std::max<std::int64_t>(1, (steps + options.every_steps - 1) / options.every_steps);
  if (options.keep_last > 0 && (steps_known || options.keep_every_steps == 0)) {
    const std::int64_t milestones = options.keep_every_steps > 0 ? steps / options.keep_every_steps : 0;
    most = std::min(most, commits_to_keep(options.keep_last) + milestones + (options.keep_best ? 1 : 0) + 1);
  }
  return most == kUnbounded ? std::nullopt : std::optional(most);
}

}  // namespace echelon::app::doctor
