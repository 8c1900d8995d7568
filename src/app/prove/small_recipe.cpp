#include "app/prove/small_recipe.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "shapes/llama_family.h"
#include "shapes/lora.h"

namespace echelon::app {
namespace {

constexpr std::int64_t kLayers = 2;
constexpr std::int64_t kVocabulary = 211;
constexpr std::int64_t kTokens = 40;        // of a sequence
constexpr std::int64_t kTargetTokens = 12;  // of a pair's target
constexpr std::int64_t kWindow = 13;        // of attention
constexpr std::int64_t kRank = 6;           // of adapters
constexpr std::int64_t kMostHeads = 16;
constexpr std::int64_t kPatches = 3;  // along a side of an image
constexpr std::int64_t kWarmup = 2;   // steps

/// `value` in the proportion of `small` to `large`, even and at least 2.
std::int64_t in_proportion(std::int64_t value, std::int64_t small, std::int64_t large) {
  return std::max<std::int64_t>(2, (value * small / large + 1) / 2 * 2);
}

void shrink_widths(ModelOptions& model) {
  const std::int64_t kv_heads = is_llama_family(model.kind) ? model.kv_heads : model.heads;
  const std::int64_t common = std::gcd(model.heads, kv_heads);
  const std::int64_t ratio = model.heads / common;
  const std::int64_t copies = std::min(common, 2 * ratio > kMostHeads ? std::int64_t{1} : std::int64_t{2});
  const std::int64_t heads =
      is_llama_family(model.kind) ? ratio * copies : std::min<std::int64_t>(model.heads, 4);
  const std::int64_t size = heads > 8 ? 8 : 16;
  // The width of all heads may differ from hidden_size.
  const std::int64_t width = model.heads * head_size(model);
  const std::int64_t hidden = width == model.hidden_size || model.kind == ModelKind::kGpt2
                                  ? heads * size
                                  : in_proportion(model.hidden_size, heads * size, width);
  model.intermediate_size = in_proportion(model.intermediate_size, hidden, model.hidden_size);
  model.kv_heads = is_llama_family(model.kind) ? kv_heads / common * copies : ModelOptions{}.kv_heads;
  if (model.head_size > 0) model.head_size = size;
  model.hidden_size = hidden;
  model.heads = heads;
  if (rotary_size(model) == 0 || rotary_size(model) % 2 != 0) model.partial_rotary_factor = 0.5;
}

void shrink_positions(ModelOptions& model, std::int64_t tokens) {
  if (model.window > 0) model.window = std::min(model.window, kWindow);
  RopeScalingOptions& rope = model.rope_scaling;
  const std::int64_t original = original_positions(model);
  const bool is_long = rope.kind == RopeKind::kLongRope;
  const bool not_beyond = is_long || rope.kind == RopeKind::kDynamic;
  if (rope.original_positions > 0 || not_beyond) {
    // Others are stretched within a sequence, so that all parts of the formula count.
    rope.original_positions = not_beyond ? tokens : std::max<std::int64_t>(8, std::min(original, tokens / 2));
  }
  if (is_long) {
    rope.short_factor.resize(static_cast<std::size_t>(rotary_size(model) / 2), 1.5);
    rope.long_factor = rope.short_factor;
  }
  const bool has_positions = !takes_pairs(model.kind);
  model.max_positions =
      has_positions ? std::max(tokens, rope.original_positions) : ModelOptions{}.max_positions;
  if (is_long) model.max_positions *= 4;  // the factor on queries and keys is of both numbers of positions
}

void shrink_model(ModelOptions& model, std::int64_t tokens) {
  model.preset = "none";
  model.from.clear();
  if (model.kind != ModelKind::kCnn) {
    shrink_widths(model);
    model.layers = std::min(model.layers, kLayers);
    model.decoder_layers = std::min(model.decoder_layers, kLayers);
  }
  model.window_from_layer = std::min(model.window_from_layer, model.layers - 1);
  // The last of the blocks is the one that differs.
  model.full_attention_every = std::min(model.full_attention_every, model.layers);
  model.no_rope_every = std::min(model.no_rope_every, model.layers);
  if (takes_images(model.kind)) {
    if (model.kind != ModelKind::kCnn) model.patch_size = std::min<std::int64_t>(model.patch_size, 4);
    model.image_size = model.kind == ModelKind::kCnn ? 12 : kPatches * model.patch_size;
    model.classes = std::min<std::int64_t>(model.classes, 7);
    return;
  }
  model.vocab_size = std::min(model.vocab_size, kVocabulary);
  if (model.kind == ModelKind::kT5) {
    model.relative_buckets = std::min<std::int64_t>(model.relative_buckets, 16);
    model.relative_max_distance = std::min<std::int64_t>(model.relative_max_distance, 24);
  }
  shrink_positions(model, tokens);
}

/// "layers.17.mlp.*" -> "layers.*.mlp.*"
std::string of_any_layer(const std::string& pattern) {
  std::string any = pattern;
  std::ranges::replace_if(
      any, [](char c) { return c >= '0' && c <= '9'; }, '*');
  const auto both = [](char a, char b) { return a == '*' && b == '*'; };
  any.erase(std::unique(any.begin(), any.end(), both), any.end());
  return any;
}

/// alpha stays, so that the scale is rarely 1. What adapts layers that are left out adapts those that are
/// there.
void shrink_adapters(const ModelOptions& model, LoraOptions& lora) {
  if (lora.rank == 0) return;
  lora.rank = std::min(lora.rank, kRank);
  for (std::string& pattern : lora.modules) {
    if (adapted_matrices(model, {.rank = 1, .modules = {pattern}, .also_train = {}}).empty())
      pattern = of_any_layer(pattern);
  }
  std::erase_if(lora.also_train, [&](const std::string& pattern) {
    return !lora_faults(model, {.rank = 1, .modules = lora.modules, .also_train = {pattern}}).empty();
  });
}

/// Names of tensors, and of layers: what patterns match.
std::set<std::string> names_in(const Recipe& recipe) {
  std::set<std::string> names{"lm_head", "embed_out", "encoder.embed_tokens", "decoder.embed_tokens"};
  for (const TensorShape& tensor : tensors_of(recipe.model, recipe.lora)) {
    names.insert(tensor.name);
    for (std::size_t dot = tensor.name.find('.'); dot != std::string::npos;
         dot = tensor.name.find('.', dot + 1))
      names.insert(tensor.name.substr(0, dot));
  }
  return names;
}

template <class Entry>
void keep_matching(std::vector<Entry>& entries, const std::set<std::string>& names) {
  std::erase_if(entries, [&](const Entry& entry) {
    return std::ranges::none_of(names, [&](const std::string& name) {
      if constexpr (std::is_same_v<Entry, std::string>)
        return matches(entry, name);
      else
        return matches(entry.first, name);
    });
  });
}

void keep_patterns(Recipe& recipe) {
  const std::set<std::string> names = names_in(recipe);
  keep_matching(recipe.optim.no_decay, names);
  keep_matching(recipe.optim.lr_factors, names);
  keep_matching(recipe.shard.wrap.exclude, names);
  keep_matching(recipe.shard.wrap.modules, names);
  keep_matching(recipe.shard.reshard_overrides, names);
  keep_matching(recipe.precision.overrides, names);
  keep_matching(recipe.activation_checkpointing.modules, names);
  if (recipe.shard.wrap.policy == WrapPolicy::kModules && recipe.shard.wrap.modules.empty())
    recipe.shard.wrap = {};
  if (recipe.shard.wrap.policy == WrapPolicy::kSizeBased)
    recipe.shard.wrap.min_params = std::min(recipe.shard.wrap.min_params, *parameter_count(recipe.model) / 4);
}

/// The first phase of each kind has a step, the last phase all that are left. So every kind stays, with the
/// keys that only it uses.
void shrink_phases(std::vector<SchedulePhase>& phases) {
  static_assert(std::size(kPhaseKinds) < kProvedSteps, "no step is left for the last phase");
  if (phases.empty()) return;
  const SchedulePhase last{phases.back().kind};
  phases.pop_back();
  std::vector<SchedulePhase> kept;
  for (const SchedulePhase& phase : phases) {
    const auto is_alike = [&](const SchedulePhase& other) { return other.kind == phase.kind; };
    if (std::ranges::none_of(kept, is_alike)) kept.push_back({phase.kind, 1});
  }
  kept.push_back(last);
  phases = std::move(kept);
}

void shrink_schedule(ScheduleOptions& schedule) {
  schedule.warmup_steps = std::min(schedule.warmup_steps, kWarmup);
  schedule.decay_steps = std::min(schedule.decay_steps, kWarmup);
  schedule.step_size = std::min(schedule.step_size, kWarmup);
  if (schedule.step_epochs > 0) schedule.step_size = kWarmup;
  schedule.step_epochs = 0;
  shrink_phases(schedule.sequence);
}

void shrink_data(DataOptions& data) {
  data.seq_len = gives_images(data.kind) ? DataOptions{}.seq_len : std::min(data.seq_len, kTokens);
  data.target_len =
      gives_pairs(data.kind) ? std::min(data.target_len, kTargetTokens) : DataOptions{}.target_len;
  data.full_length = false;
  data.tokenizer.clear();
  data.validation = {};
  data.workers = std::min<std::int64_t>(data.workers, 1);
  data.on_bad_record = BadRecord::kStop;
  data.max_bad_records = DataOptions{}.max_bad_records;
  if (!gives_images(data.kind)) return;
  data.kind = DataKind::kSyntheticImages;
  data.path.clear();
  data.labels.clear();
  data.image = {};
}

}  // namespace

void fit_to(int ranks, ShardOptions& shard) {
  if (is_hybrid(shard.strategy))
    shard.mesh = {.shard = ranks % 2 == 0 && ranks > 2 ? 2 : ranks, .replicate = 0};
  SwitchOrCount& reshard = shard.reshard_after_forward;
  if (reshard.count > 0) reshard.count = ranks > 1 ? ranks : 0;
}

bool is_fp32(const PrecisionOptions& precision) {
  const PrecisionTypes types = types_of(precision);
  const std::array all{types.param, types.reduce, types.buffer, types.output, types.master};
  return precision.overrides.empty() &&
         std::ranges::all_of(all, [](FloatType type) { return type == FloatType::kFp32; });
}

Recipe small_recipe(Recipe recipe, int ranks) {
  shrink_data(recipe.data);
  shrink_model(recipe.model, recipe.data.seq_len);
  shrink_adapters(recipe.model, recipe.lora);
  keep_patterns(recipe);
  shrink_schedule(recipe.schedule);
  fit_to(ranks, recipe.shard);
  TrainOptions& train = recipe.train;
  train.device = TrainDevice::kCpu;
  train.steps = kProvedSteps;
  train.epochs = 0;
  train.micro_batch_size = std::min<std::int64_t>(train.micro_batch_size, 2);
  train.global_batch_size = 2 * train.micro_batch_size * ranks;
  train.validate_every_steps = 0;
  train.validate_every_epochs = 0;
  train.threads_per_rank = 1;
  train.deterministic = false;
  train.non_finite = NonFinite::kStop;
  train.max_skipped_steps = TrainOptions{}.max_skipped_steps;
  recipe.precision.tf32 = false;
  recipe.precision.matmul = Matmul::kParam;
  recipe.checkpoint = {.every_steps = kProvedSteps / 2, .keep_last = 0};
  recipe.metrics = {.every_steps = 1};
  recipe.evaluation = {};
  recipe.cluster = {};
  recipe.run.allow_foreign_folder = false;
  return recipe;
}

}  // namespace echelon::app
