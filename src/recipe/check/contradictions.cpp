#include "recipe/check/contradictions.h"

#include <algorithm>
#include <initializer_list>
#include <set>

#include "base/number.h"
#include "base/str.h"
#include "recipe/check/uses_table.h"
#include "recipe/keys/keys.h"
#include "recipe/yaml/writer.h"
#include "shapes/shapes.h"

namespace echelon::recipe {
namespace {

constexpr std::size_t kLongestShown = 60;

/// Access to a recipe's values by key path.
class RecipeTexts {
 public:
  explicit RecipeTexts(const Recipe& recipe) : recipe_(recipe) {}

  [[nodiscard]] std::string value(std::string_view path) const { return written(*find_key(path), recipe_); }
  [[nodiscard]] bool is_set(std::string_view path) const {
    return value(path) != written(*find_key(path), defaults_);
  }
  /// "optim.momentum is 0.9"; for a long list "shard.wrap.modules is set".
  [[nodiscard]] std::string words(std::string_view path) const {
    const std::string text = value(path);
    return str(path, " is ", text.size() > kLongestShown ? "set" : text);
  }

 private:
  const Recipe& recipe_;
  Recipe defaults_;
};

/// The words of the chooser's values with which the keys are used.
std::vector<std::string> words_of(const Use& use) {
  Recipe recipe;
  const Slot slot = find_key(use.chooser)->slot(recipe);
  const auto* choice = std::get_if<ChoiceField>(&slot);
  if (choice == nullptr) return {use.values == any_of(true) ? "true" : "false"};
  std::vector<std::string> words;
  for (std::size_t value = 0; value < choice->words.size(); ++value) {
    if ((use.values >> value & 1U) != 0) words.emplace_back(choice->words[value]);
  }
  return words;
}

/// Returns whether the chooser has one of these values.
bool is_chosen(const Use& use, const Recipe& recipe) {
  Recipe copy = recipe;  // Key::slot needs a mutable recipe
  const Slot slot = find_key(use.chooser)->slot(copy);
  const auto* choice = std::get_if<ChoiceField>(&slot);
  const unsigned value = choice != nullptr ? *choice->value : static_cast<unsigned>(*std::get<bool*>(slot));
  return (use.values >> value & 1U) != 0;
}

/// What to set in place of a key that the chooser's value does not use: that value's own key of the same
/// name, as optim.muon.momentum for optim.momentum, or the chooser.
std::string in_place_of(std::string_view key, const Use& use, const RecipeTexts& texts) {
  const auto dot = key.rfind('.') + 1;
  const std::string own = str(key.substr(0, dot), texts.value(use.chooser), '.', key.substr(dot));
  return find_key(own) != nullptr ? own : str(use.chooser, ": ", join(words_of(use), " or "));
}

void check_uses(const Recipe& recipe, const RecipeTexts& texts, Conflicts& found) {
  // A key with two choosers is told once. A conflict of its value does not hide that it has no use: whoever
  // followed that advice would be refused again.
  std::set<std::string_view> told;
  for (const Use& use : kUses) {
    if (is_chosen(use, recipe)) continue;
    for (const std::string_view key : words_in(use.keys)) {
      if (!texts.is_set(key) || !told.insert(key).second) continue;
      found.add({std::string(key), use.chooser}, texts.words(key), ", which ", use.chooser, ": ",
                texts.value(use.chooser), " does not use; remove it, or set ", in_place_of(key, use, texts));
    }
  }
}

void check_shard(const ShardOptions& shard, Conflicts& found) {
  const std::int64_t kept = shard.reshard_after_forward.count;
  if (kept > 0 && shard.strategy != ShardStrategy::kFullShard &&
      shard.strategy != ShardStrategy::kHybridShard) {
    found.add({"shard.reshard_after_forward", "shard.strategy"}, "shard.reshard_after_forward is ", kept,
              ", which shard.strategy: ", word_of(shard.strategy),
              " does not use; set it to true or false, or set shard.strategy: full_shard or hybrid_shard");
  }
  if (shard.wrap.policy == WrapPolicy::kModules && shard.wrap.modules.empty()) {
    found.add({"shard.wrap.modules", "shard.wrap.policy"},
              "shard.wrap.modules is empty; shard.wrap.policy: modules needs the patterns of the modules "
              "that become units, such as [\"model.layers.*\"]");
  }
  if (shard.offload == Offload::kCpu && shard.strategy == ShardStrategy::kNoShard) {
    found.add({"shard.offload", "shard.strategy"},
              "shard.offload is cpu, but shard.strategy: no_shard has no parts to keep in host memory; set "
              "shard.offload: none, or a strategy that splits state, such as full_shard");
  }
}

/// The effective value of a type that the precision preset may supply, and the key that sets it.
struct Type {
  const char* key;
  FloatType value;
};

Type param_of(const PrecisionOptions& precision) {
  if (precision.param != FloatType::kUnset) return {"precision.param", precision.param};
  return {"precision.preset", types_of(precision.preset).param};
}

/// A preset of which nothing is left.
void check_preset(const PrecisionOptions& precision, const RecipeTexts& texts, Conflicts& found) {
  const PresetTypes preset = types_of(precision.preset);
  const bool replaced = precision.param != FloatType::kUnset && precision.reduce != FloatType::kUnset &&
                        (precision.buffer != FloatType::kUnset || preset.buffer == FloatType::kUnset) &&
                        (precision.master != FloatType::kUnset || preset.master != FloatType::kBf16);
  const bool same = precision.param == preset.param && precision.reduce == preset.reduce;
  if (!replaced || same || precision.preset == PrecisionPreset::kNone) return;
  found.add({"precision.preset", "precision.param"}, texts.words("precision.preset"),
            ", of which no type is left; set precision.param to unset, or remove precision.preset");
}

void check_fp8(const Recipe& recipe, const RecipeTexts& texts, Conflicts& found) {
  if (recipe.precision.matmul != Matmul::kFp8 || !is_used("precision.matmul", recipe)) return;
  const Type param = param_of(recipe.precision);
  if (param.value != FloatType::kBf16) {
    found.add({"precision.matmul", param.key}, "precision.matmul is fp8, but ", texts.words(param.key),
              ", which computes in ", word_of(param.value),
              "; fp8 replaces products of bf16: set precision.param: bf16, or precision.matmul: "
              "param");
  }
  if (recipe.data.kind == DataKind::kPreference) {
    found.add({"precision.matmul", "data.kind"},
              "precision.matmul is fp8, but data.kind is preference, whose reference probabilities are "
              "not computed in fp8, so the first loss would not be log 2; set precision.matmul: param");
  }
  ModelOptions model = recipe.model;
  model.layers = 1;
  for (const TensorShape& tensor : tensors_of(model)) {
    const Dimensions& sides = tensor.dimensions;
    if (matrix_rows(tensor).empty() || (sides[0] % kFp8Multiple == 0 && sides[1] % kFp8Multiple == 0))
      continue;
    found.add({"precision.matmul"}, "precision.matmul is fp8, but ", tensor.name, " is ", sides[0], " x ",
              sides[1],
              "; products of fp8 need multiples of 16: set precision.matmul: param, or other "
              "sizes");
    return;
  }
}

void check_precision(const Recipe& recipe, const RecipeTexts& texts, Conflicts& found) {
  check_preset(recipe.precision, texts, found);
  check_fp8(recipe, texts, found);
  for (const char* key : {"precision.loss_scale", "precision.loss_scale_growth_steps"}) {
    if (computes_in(recipe.precision, FloatType::kFp16) || !texts.is_set(key)) continue;
    const Type param = param_of(recipe.precision);
    found.add({key, param.key}, texts.words(key), ", which only fp16 uses, and nothing is fp16 (",
              texts.words(param.key), "); remove it, or set precision.param: fp16");
  }
  const auto& factors = recipe.optim.lr_factors;
  if (texts.is_set("precision.frozen") && recipe.lora.rank == 0 &&
      std::ranges::none_of(factors, [](const auto& entry) { return entry.second == 0; })) {
    found.add({"precision.frozen", "lora.rank"}, texts.words("precision.frozen"),
              ", but nothing is frozen; remove it, or set lora.rank, or a factor 0 in "
              "optim.lr_factors");
  }
  if (types_of(recipe.precision).master != FloatType::kBf16) return;
  const bool own = recipe.precision.master != FloatType::kUnset;
  const char* master = own ? "precision.master" : "precision.preset";
  if (recipe.optim.kind != OptimKind::kAnyPrecisionAdamW) {
    found.add({master, "optim.kind"}, texts.words(master),
              ": bf16 master weights, in which optim.kind: ", word_of(recipe.optim.kind),
              " loses small updates; set optim.kind: anyprecision_adamw, or precision.master: fp32");
  }
  if (recipe.optim.ema_decay > 0) {
    found.add({"optim.ema_decay", master}, texts.words("optim.ema_decay"), ", but ", texts.words(master),
              ": an average of bf16 master weights does not change; set optim.ema_decay: 0, or "
              "precision.master: fp32");
  }
}

void check_steps(const Recipe& recipe, const RecipeTexts& texts, Conflicts& found) {
  if (recipe.optim.kind == OptimKind::kSgd && recipe.optim.nesterov && recipe.optim.momentum == 0) {
    found.add({"optim.nesterov", "optim.momentum"},
              "optim.nesterov is true, but optim.momentum is 0; set optim.momentum, such as 0.9, or "
              "optim.nesterov: false");
  }
  if (recipe.train.epochs > 0 && texts.is_set("train.steps")) {
    found.add({"train.steps", "train.epochs"}, texts.words("train.epochs"), " and ",
              texts.words("train.steps"),
              "; both say how long the run is: remove train.steps, or set train.epochs: 0");
  }
  if (recipe.schedule.step_epochs > 0 && texts.is_set("schedule.step_size")) {
    found.add({"schedule.step_size", "schedule.step_epochs"}, texts.words("schedule.step_epochs"), " and ",
              texts.words("schedule.step_size"),
              "; only one of them applies: remove schedule.step_size, or set "
              "schedule.step_epochs: 0");
  }
  if (recipe.train.clip_grad_value > 0 && recipe.train.clip_grad_norm > 0) {
    found.add({"train.clip_grad_value", "train.clip_grad_norm"}, texts.words("train.clip_grad_value"),
              " and ", texts.words("train.clip_grad_norm"),
              "; gradients are clipped in one way only: set train.clip_grad_norm: 0, or remove "
              "train.clip_grad_value");
  }
}

void check_initial_weights(const Recipe& recipe, const RecipeTexts& texts, Conflicts& found) {
  const CheckpointOptions& checkpoint = recipe.checkpoint;
  if (!recipe.model.from.empty()) {
    for (const char* key : {"model.preset", "checkpoint.init_from"}) {
      if (!texts.is_set(key)) continue;
      found.add({key, "model.from"}, texts.words("model.from"),
                ", which sets the model and its weights, and ", texts.words(key), "; remove one of them");
    }
  }
  if (!checkpoint.init_partial || !checkpoint.init_from.empty()) return;
  found.add({"checkpoint.init_partial", "checkpoint.init_from"},
            "checkpoint.init_partial is true, but checkpoint.init_from names no checkpoint to take "
            "weights from; remove it, or set checkpoint.init_from");
}

/// Reports those of `keys` that are set, although `feature` is off: `why` is the rest of the sentence.
void report_set(std::initializer_list<const char*> keys, const char* feature, std::string_view why,
                const RecipeTexts& texts, Conflicts& found) {
  for (const char* key : keys) {
    if (texts.is_set(key)) found.add({key, feature}, texts.words(key), ", but ", feature, why);
  }
}

void check_lora(const Recipe& recipe, const RecipeTexts& texts, Conflicts& found) {
  if (recipe.lora.rank > 0) {
    if (recipe.checkpoint.consolidate != Consolidate::kSafetensors) return;
    found.add({"checkpoint.consolidate", "lora.rank"}, "checkpoint.consolidate is safetensors, but ",
              texts.words("lora.rank"),
              ": transformers would leave the adapters out; set it to none, and use `echelon-ckpt "
              "export` after the run");
    return;
  }
  report_set({"lora.alpha", "lora.use_rslora", "lora.dropout", "lora.modules", "lora.also_train"},
             "lora.rank", " is 0: there are no adapters; remove it, or set lora.rank, such as 16", texts,
             found);
}

void check_memory(const CheckpointOptions& checkpoint, const RecipeTexts& texts, Conflicts& found) {
  if (checkpoint.memory_every_steps == 0)
    report_set({"checkpoint.memory_dir", "checkpoint.memory_limit_gib"}, "checkpoint.memory_every_steps",
               " is 0: nothing is saved to memory; remove it, or set checkpoint.memory_every_steps", texts,
               found);
  if (checkpoint.memory_dir.starts_with('/')) return;
  found.add({"checkpoint.memory_dir"}, "checkpoint.memory_dir is '", checkpoint.memory_dir,
            "'; expected an absolute path, because it means a folder of every node");
}

bool validates(const TrainOptions& train) {
  return train.validate_every_steps > 0 || train.validate_every_epochs > 0;
}

void check_generation(const Recipe& recipe, const RecipeTexts& texts, Conflicts& found) {
  if (!is_used("data.validation.generate", recipe)) return;
  if (recipe.data.validation.generate == 0)
    report_set({"data.validation.beams", "data.validation.max_new_tokens"}, "data.validation.generate",
               " is 0: no text is generated; remove it, or set data.validation.generate", texts, found);
  if (!validates(recipe.train))
    report_set({"data.validation.generate"}, "train.validate_every_steps",
               " and train.validate_every_epochs are 0: nothing is validated; set one of them, or "
               "data.validation.generate: 0",
               texts, found);
}

void check_best(const Recipe& recipe, Conflicts& found) {
  if (recipe.checkpoint.keep_best && !validates(recipe.train) && recipe.evaluation.best.empty())
    found.add({"checkpoint.keep_best", "train.validate_every_steps"},
              "checkpoint.keep_best is true, but nothing says which step is the best; set "
              "train.validate_every_steps, train.validate_every_epochs or evaluation.best");
}

void check_warmup_and_decay(const Recipe& recipe, Conflicts& found) {
  const ScheduleOptions& schedule = recipe.schedule;
  const std::int64_t steps = recipe.train.steps;
  if (recipe.train.epochs > 0) return;  // the number of steps is known only with the data
  if (schedule.kind != ScheduleKind::kWarmupStableDecay || schedule.warmup_steps > steps ||
      schedule.warmup_steps + schedule.decay_steps <= steps)
    return;
  found.add({"schedule.decay_steps", "schedule.warmup_steps", "train.steps"},
            "schedule.warmup_steps + schedule.decay_steps is ", schedule.warmup_steps, " + ",
            schedule.decay_steps, "; expected at most train.steps (", steps, "): shorten one of them");
}

void check_sequence(const Recipe& recipe, const RecipeTexts& texts, Conflicts& found) {
  const std::vector<SchedulePhase>& phases = recipe.schedule.sequence;
  if (recipe.schedule.kind != ScheduleKind::kSequence) return;
  if (phases.empty()) {
    found.add({"schedule.sequence", "schedule.kind"},
              "schedule.sequence is empty; schedule.kind: sequence needs its phases, such as "
              "[linear_warmup 100, constant 500, cosine]");
    return;
  }
  for (const Use& use : kPhaseUses) {
    const auto uses = [&](const SchedulePhase& phase) { return (use.values & any_of(phase.kind)) != 0; };
    if (!texts.is_set(use.keys) || std::ranges::any_of(phases, uses)) continue;
    found.add({use.keys, "schedule.sequence"}, texts.words(use.keys),
              ", which no phase of schedule.sequence uses; remove it, or add a ", "phase of kind ",
              join(words_of(use), " or "));
  }
  std::int64_t sum = 0;  // cannot overflow: at most 1000 phases of 10^12 steps
  for (const SchedulePhase& phase : phases) sum += phase.steps;
  if (recipe.train.epochs > 0) return;
  const bool open_end = phases.back().steps == 0;
  const std::int64_t steps = recipe.train.steps;
  if (open_end ? sum < steps : sum == steps) return;
  found.add({"schedule.sequence", "train.steps"}, "the phases of schedule.sequence ",
            open_end ? "before the last " : "", "take ", sum, " steps; expected ",
            open_end ? "less than " : "", "train.steps (", steps, ")",
            open_end
                ? ": nothing is left for the last one"
                : ": change their lengths, or leave out that of the last one, which then lasts to the end");
}

}  // namespace

bool is_used(std::string_view key, const Recipe& recipe) {
  return std::ranges::all_of(
      kUses, [&](const Use& use) { return !has_word(use.keys, key) || is_chosen(use, recipe); });
}

void find_contradictions(const Recipe& recipe, Conflicts& found) {
  const RecipeTexts texts(recipe);
  check_uses(recipe, texts, found);
  check_shard(recipe.shard, found);
  check_precision(recipe, texts, found);
  check_steps(recipe, texts, found);
  check_initial_weights(recipe, texts, found);
  check_lora(recipe, texts, found);
  check_memory(recipe.checkpoint, texts, found);
  check_generation(recipe, texts, found);
  check_best(recipe, found);
  if (recipe.evaluation.tasks.empty())
    report_set(
        {"evaluation.limit", "evaluation.max_new_tokens", "evaluation.every_steps", "evaluation.max_share"},
        "evaluation.tasks", " names no task; remove it, or add one", texts, found);
  check_warmup_and_decay(recipe, found);
  check_sequence(recipe, texts, found);
}

}  // namespace echelon::recipe
