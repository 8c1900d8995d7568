#include "app/doctor/checks/recipe_size.h"

#include <algorithm>
#include <limits>

#include "shapes/lora.h"

namespace echelon::app::doctor {
namespace {

std::uint64_t bytes_of(FloatType type) {
  return type == FloatType::kFp32 ? 4 : 2;
}

/// Bytes per parameter of the persistent weights, of which the share `trained` is not frozen.
double master_bytes(const PrecisionOptions& precision, double trained) {
  const FloatType master = overridden(types_of(precision.preset).master, precision.master);
  const FloatType frozen = overridden(master, precision.frozen);
  return trained * static_cast<double>(bytes_of(master)) +
         (1 - trained) * static_cast<double>(bytes_of(frozen));
}

/// Bytes per parameter of the optimizer state and the averaged weights; those of Muon beside its matrices.
std::uint64_t state_bytes(const OptimOptions& optim) {
  std::uint64_t bytes = optim.ema_decay > 0 ? 4 : 0;
  switch (optim.kind) {
    case OptimKind::kSgd: return bytes + (optim.momentum == 0.0 ? 0 : 4);
    case OptimKind::kAdamW:
    case OptimKind::kAdadelta:
    case OptimKind::kMuon: return bytes + 8;  // two fp32 values per parameter
    case OptimKind::kAnyPrecisionAdamW: break;
  }
  bytes += bytes_of(optim.momentum_dtype) + bytes_of(optim.variance_dtype);
  return bytes + (optim.kahan ? bytes_of(optim.compensation_dtype) : 0);
}

/// Shares of the parameters.
struct Shares {
  double trained = 0;   ///< not frozen
  double matrices = 0;  ///< of those that are not frozen: what Muon updates
};

Shares shares_of(const Recipe& recipe) {
  const OptimOptions& optim = recipe.optim;
  double all = 0;
  double trained = 0;
  double matrices = 0;
  for (const TensorShape& tensor : tensors_of(recipe.model, recipe.lora)) {
    double numel = 1;
    for (const std::int64_t size : tensor.dimensions) numel *= static_cast<double>(size);
    all += numel;
    if (!is_trained(recipe.lora, tensor.name) || optim.freezes(tensor.name)) continue;
    trained += numel;
    const bool of_muon = optim.kind == OptimKind::kMuon && !matrix_rows(tensor).empty() &&
                         !is_adapter(tensor.name) && !matches_any(optim.muon.adamw, tensor.name);
    if (of_muon) matrices += numel;
  }
  return {trained / all, trained == 0 ? 0 : matrices / trained};
}

}  // namespace

std::optional<RecipeSize> size_of(const Recipe& recipe, int ranks, int ranks_per_node) {
  std::optional<std::int64_t> parameters = parameter_count(recipe.model);
  if (!parameters) return std::nullopt;
  *parameters += adapter_parameters(recipe.model, recipe.lora).value_or(0);
  const std::int64_t group =
      std::clamp<std::int64_t>(ranks_of_a_copy(recipe.shard, ranks, ranks_per_node), 1, ranks);
  const auto mine = static_cast<std::uint64_t>((*parameters + group - 1) / group);
  const auto [trained, matrices] = shares_of(recipe);
  const auto of_trained = [share = trained](std::uint64_t count, double bytes) {
    return static_cast<std::uint64_t>(static_cast<double>(count) * bytes * share);
  };
  constexpr double kGradient = 4;
  constexpr double kSecondMoment = 4;  // that a matrix of Muon does not have
  const double master = master_bytes(recipe.precision, trained);
  const auto of_weights = [master](std::uint64_t count) {
    return static_cast<std::uint64_t>(static_cast<double>(count) * master);
  };
  const double state = static_cast<double>(state_bytes(recipe.optim)) - matrices * kSecondMoment;
  const auto all = static_cast<std::uint64_t>(*parameters);
  const std::uint64_t mine_saved = of_weights(mine) + of_trained(mine, state);
  return RecipeSize{.parameters = *parameters,
                    .checkpoint_bytes = of_weights(all) + of_trained(all, state),
                    .rank_bytes = mine_saved + of_trained(mine, kGradient),
                    .staging_bytes = recipe.checkpoint.async ? mine_saved : 0};
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
