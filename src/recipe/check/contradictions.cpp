#include "recipe/check/contradictions.h"

#include <algorithm>
#include <array>

#include "base/str.h"
#include "recipe/keys/keys.h"
#include "recipe/yaml/scalar.h"
#include "recipe/yaml/writer.h"

namespace echelon::recipe {
namespace {

constexpr std::size_t kLongestShown = 60;

/// A key that means something only beside some values of another one.
struct Use {
  const char* key;
  const char* chooser;
  std::array<const char*, 5> values;  ///< of `chooser`; empty places are null
};

constexpr std::array kUses{
    Use{"model.kv_heads", "model.kind", {"llama"}},
    Use{"model.max_positions", "model.kind", {"llama", "gpt2"}},
    Use{"model.rope_theta", "model.kind", {"llama"}},
    Use{"model.tie_embeddings", "model.kind", {"llama", "gpt2", "t5"}},
    Use{"model.init_std", "model.kind", {"llama", "gpt2", "vit", "deepvit"}},
    Use{"model.dropout", "model.kind", {"gpt2", "t5", "vit", "deepvit", "cnn"}},
    Use{"model.decoder_layers", "model.kind", {"t5"}},
    Use{"model.head_size", "model.kind", {"t5"}},
    Use{"model.feed_forward", "model.kind", {"t5"}},
    Use{"model.relative_buckets", "model.kind", {"t5"}},
    Use{"model.relative_max_distance", "model.kind", {"t5"}},
    Use{"model.image_size", "model.kind", {"vit", "deepvit", "cnn"}},
    Use{"model.patch_size", "model.kind", {"vit", "deepvit"}},
    Use{"model.channels", "model.kind", {"vit", "deepvit", "cnn"}},
    Use{"model.classes", "model.kind", {"vit", "deepvit", "cnn"}},
    Use{"data.full_length", "data.kind", {"synthetic_pairs"}},
    Use{"data.validation.samples", "data.kind", {"synthetic_images"}},
    Use{"data.validation.generate", "data.kind", {"pairs"}},
    Use{"data.validation.beams", "data.kind", {"pairs"}},
    Use{"data.validation.max_new_tokens", "data.kind", {"pairs"}},
    Use{"data.packing", "data.kind", {"tokens"}},
    Use{"data.target_len", "data.kind", {"pairs", "synthetic_pairs"}},
    Use{"data.mixture", "data.kind", {"tokens", "pairs"}},
    Use{"data.labels", "data.kind", {"idx"}},
    Use{"data.validation.labels", "data.kind", {"idx"}},
    Use{"data.mean", "data.kind", {"image_folder", "idx", "synthetic_images"}},
    Use{"data.std", "data.kind", {"image_folder", "idx", "synthetic_images"}},
    Use{"data.image.crop", "data.kind", {"image_folder"}},
    Use{"data.image.crop_area", "data.kind", {"image_folder"}},
    Use{"data.image.crop_area", "data.image.crop", {"random"}},
    Use{"data.image.flip", "data.kind", {"image_folder"}},
    Use{"data.image.resize", "data.kind", {"image_folder"}},
    Use{"data.image.max_pixels", "data.kind", {"image_folder"}},
    Use{"data.on_bad_record", "data.kind", {"image_folder"}},
    Use{"data.max_bad_records", "data.on_bad_record", {"skip"}},
    Use{"shard.mesh.shard", "shard.strategy", {"hybrid_shard", "hybrid_grad_op"}},
    Use{"shard.mesh.replicate", "shard.strategy", {"hybrid_shard", "hybrid_grad_op"}},
    Use{"shard.wrap.min_params", "shard.wrap.policy", {"size_based"}},
    Use{"shard.wrap.exclude", "shard.wrap.policy", {"size_based"}},
    Use{"shard.wrap.modules", "shard.wrap.policy", {"modules"}},
    Use{"activation_checkpointing.every_n", "activation_checkpointing.policy", {"every_n"}},
    Use{"activation_checkpointing.modules",
        "activation_checkpointing.policy",
        {"full", "every_n", "selective"}},
    Use{"activation_checkpointing.offload", "activation_checkpointing.policy", {"full", "every_n"}},
    Use{"optim.momentum", "optim.kind", {"sgd"}},
    Use{"optim.nesterov", "optim.kind", {"sgd"}},
    Use{"optim.rho", "optim.kind", {"adadelta"}},
    Use{"optim.momentum_dtype", "optim.kind", {"anyprecision_adamw"}},
    Use{"optim.variance_dtype", "optim.kind", {"anyprecision_adamw"}},
    Use{"optim.compensation_dtype", "optim.kind", {"anyprecision_adamw"}},
    Use{"optim.compensation_dtype", "optim.kahan", {"true"}},
    Use{"optim.kahan", "optim.kind", {"anyprecision_adamw"}},
    Use{"schedule.step_size", "schedule.kind", {"step", "sequence"}},
    Use{"schedule.step_epochs", "schedule.kind", {"step"}},
    Use{"schedule.gamma", "schedule.kind", {"step", "sequence"}},
    Use{"schedule.decay_steps", "schedule.kind", {"warmup_stable_decay"}},
    Use{"schedule.sequence", "schedule.kind", {"sequence"}},
    Use{"train.max_skipped_steps", "train.non_finite", {"skip"}},
};

/// What a recipe says about its keys, by path.
class Said {
 public:
  explicit Said(const Recipe& recipe) : recipe_(recipe) {}

  [[nodiscard]] std::string value(const char* path) const { return written(*find_key(path), recipe_); }
  [[nodiscard]] bool is_set(const char* path) const {
    return value(path) != written(*find_key(path), defaults_);
  }
  /// "optim.momentum is 0.9", or for a long list "shard.wrap.modules is set".
  [[nodiscard]] std::string words(const char* path) const {
    const std::string text = value(path);
    return str(path, " is ", text.size() > kLongestShown ? "set" : text);
  }

 private:
  const Recipe& recipe_;
  Recipe defaults_;
};

std::vector<std::string> values_of(const Use& use) {
  std::vector<std::string> values;
  for (const char* value : use.values) {
    if (value != nullptr) values.emplace_back(value);
  }
  return values;
}

/// Whether the chooser has a value beside which the key means something.
bool is_chosen(const Use& use, const Said& said) {
  const std::vector<std::string> values = values_of(use);
  return std::find(values.begin(), values.end(), said.value(use.chooser)) != values.end();
}

void check_uses(const Said& said, std::vector<Conflict>& found) {
  for (const Use& use : kUses) {
    const bool reported = !found.empty() && found.back().keys.front() == use.key;
    if (reported || !said.is_set(use.key)) continue;
    if (is_chosen(use, said)) continue;
    found.push_back(
        {{use.key, use.chooser},
         str(said.words(use.key), ", which ", use.chooser, ": ", said.value(use.chooser),
             " does not use; remove it, or set ", use.chooser, ": ", join(values_of(use), " or "))});
  }
}

void check_shard(const ShardOptions& shard, std::vector<Conflict>& found) {
  if (shard.reshard_after_forward >= 2 && shard.strategy != "full_shard" &&
      shard.strategy != "hybrid_shard") {
    found.push_back({{"shard.reshard_after_forward", "shard.strategy"},
                     str("shard.reshard_after_forward is ", shard.reshard_after_forward,
                         ", which shard.strategy: ", shard.strategy,
                         " does not use; set it to true or false, or set shard.strategy: full_shard or "
                         "hybrid_shard")});
  }
  if (shard.wrap.policy == "modules" && shard.wrap.modules.empty()) {
    found.push_back(
        {{"shard.wrap.modules", "shard.wrap.policy"},
         "shard.wrap.modules is empty; shard.wrap.policy: modules needs the patterns of the modules "
         "that become units, such as [\"model.layers.*\"]"});
  }
  if (shard.offload == "cpu" && shard.strategy == "no_shard") {
    found.push_back(
        {{"shard.offload", "shard.strategy"},
         "shard.offload is cpu, but shard.strategy: no_shard has no parts to keep in host memory; set "
         "shard.offload: none, or a strategy that splits state, such as full_shard"});
  }
}

/// The value that counts of a type that may come from the preset, and the key that says it.
struct Type {
  const char* key;
  std::string value;
};

Type param_of(const PrecisionOptions& precision) {
  if (precision.param != "unset") return {"precision.param", precision.param};
  static constexpr std::array<std::string_view, 3> kBf16{"bf16", "bf16_fp32_reduce", "bf16_pure"};
  if (precision.preset == "fp16") return {"precision.preset", "fp16"};
  const bool bf16 = std::find(kBf16.begin(), kBf16.end(), precision.preset) != kBf16.end();
  return {"precision.preset", bf16 ? "bf16" : "fp32"};
}

Type master_of(const PrecisionOptions& precision) {
  if (precision.master != "unset") return {"precision.master", precision.master};
  return {"precision.preset", precision.preset == "bf16_pure" ? "bf16" : "fp32"};
}

/// May gradients pass through fp16? Which modules an override names is known with the model only.
bool has_fp16_gradients(const PrecisionOptions& precision) {
  const bool preset = precision.preset == "fp16";
  const auto is_fp16 = [&](const std::string& key) { return key == "fp16" || (preset && key == "unset"); };
  return is_fp16(precision.param) || is_fp16(precision.reduce) || precision.output == "fp16" ||
         std::any_of(precision.overrides.begin(), precision.overrides.end(),
                     [](const auto& entry) { return entry.second == "fp16"; });
}

void check_precision(const Recipe& recipe, const Said& said, std::vector<Conflict>& found) {
  for (const char* key : {"precision.loss_scale", "precision.loss_scale_growth_steps"}) {
    if (has_fp16_gradients(recipe.precision) || !said.is_set(key)) continue;
    const Type param = param_of(recipe.precision);
    found.push_back({{key, param.key},
                     str(said.words(key), ", which only fp16 uses, and nothing is fp16 (",
                         said.words(param.key), "); remove it, or set precision.param: fp16")});
  }
  const Type master = master_of(recipe.precision);
  if (master.value != "bf16") return;
  if (recipe.optim.kind != "anyprecision_adamw") {
    found.push_back(
        {{master.key, "optim.kind"},
         str(said.words(master.key), ": bf16 master weights, in which optim.kind: ", recipe.optim.kind,
             " loses small steps; set optim.kind: anyprecision_adamw, or precision.master: fp32")});
  }
  if (recipe.optim.ema_decay > 0) {
    found.push_back({{"optim.ema_decay", master.key},
                     str(said.words("optim.ema_decay"), ", but ", said.words(master.key),
                         ": an average of bf16 master weights stands still; set optim.ema_decay: 0, or "
                         "precision.master: fp32")});
  }
}

void check_steps(const Recipe& recipe, const Said& said, std::vector<Conflict>& found) {
  if (recipe.optim.kind == "sgd" && recipe.optim.nesterov && recipe.optim.momentum == 0) {
    found.push_back({{"optim.nesterov", "optim.momentum"},
                     "optim.nesterov is true, but optim.momentum is 0; set optim.momentum, such as 0.9, or "
                     "optim.nesterov: false"});
  }
  if (recipe.train.epochs > 0 && said.is_set("train.steps")) {
    found.push_back({{"train.steps", "train.epochs"},
                     str(said.words("train.epochs"), " and ", said.words("train.steps"),
                         "; both say how long the run is: remove train.steps, or set train.epochs: 0")});
  }
  if (recipe.schedule.step_epochs > 0 && said.is_set("schedule.step_size")) {
    found.push_back({{"schedule.step_size", "schedule.step_epochs"},
                     str(said.words("schedule.step_epochs"), " and ", said.words("schedule.step_size"),
                         "; the rate falls by one of them: remove schedule.step_size, or set "
                         "schedule.step_epochs: 0")});
  }
  if (recipe.train.clip_grad_value > 0 && recipe.train.clip_grad_norm > 0) {
    found.push_back({{"train.clip_grad_value", "train.clip_grad_norm"},
                     str(said.words("train.clip_grad_value"), " and ", said.words("train.clip_grad_norm"),
                         "; gradients are clipped in one way only: set train.clip_grad_norm: 0, or remove "
                         "train.clip_grad_value")});
  }
}

void check_initial_weights(const CheckpointOptions& checkpoint, std::vector<Conflict>& found) {
  if (!checkpoint.init_partial || !checkpoint.init_from.empty()) return;
  found.push_back({{"checkpoint.init_partial", "checkpoint.init_from"},
                   "checkpoint.init_partial is true, but checkpoint.init_from names no checkpoint to take "
                   "weights from; remove it, or set checkpoint.init_from"});
}

void check_warmup_and_decay(const Recipe& recipe, std::vector<Conflict>& found) {
  const ScheduleOptions& schedule = recipe.schedule;
  const std::int64_t steps = recipe.train.steps;
  if (recipe.train.epochs > 0) return;  // their number of steps is known with the data
  if (schedule.kind != "warmup_stable_decay" || schedule.warmup_steps > steps ||
      schedule.warmup_steps + schedule.decay_steps <= steps)
    return;
  found.push_back(
      {{"schedule.decay_steps", "schedule.warmup_steps", "train.steps"},
       str("schedule.warmup_steps + schedule.decay_steps is ", schedule.warmup_steps, " + ",
           schedule.decay_steps, "; expected at most train.steps (", steps, "): shorten one of them")});
}

void check_sequence(const Recipe& recipe, std::vector<Conflict>& found) {
  const std::vector<std::string>& phases = recipe.schedule.sequence;
  if (recipe.schedule.kind != "sequence") return;
  if (phases.empty()) {
    found.push_back({{"schedule.sequence", "schedule.kind"},
                     "schedule.sequence is empty; schedule.kind: sequence needs its phases, such as "
                     "[linear_warmup 100, constant 500, cosine]"});
    return;
  }
  std::int64_t sum = 0;  // 1000 phases of 10^12 steps at most
  for (const std::string& phase : phases) sum += phase_steps(phase);
  if (recipe.train.epochs > 0) return;
  const bool open_end = phase_steps(phases.back()) == 0;
  const std::int64_t steps = recipe.train.steps;
  if (open_end ? sum < steps : sum == steps) return;
  found.push_back(
      {{"schedule.sequence", "train.steps"},
       str("the phases of schedule.sequence ", open_end ? "before the last " : "", "take ", sum,
           " steps; expected ", open_end ? "less than " : "", "train.steps (", steps, ")",
           open_end
               ? ": nothing is left for the last one"
               : ": change their lengths, or leave out that of the last one, which then lasts to the end")});
}

}  // namespace

bool is_used(std::string_view key, const Recipe& recipe) {
  const Said said(recipe);
  return std::all_of(kUses.begin(), kUses.end(),
                     [&](const Use& use) { return use.key != key || is_chosen(use, said); });
}

void find_contradictions(const Recipe& recipe, std::vector<Conflict>& found) {
  const Said said(recipe);
  check_uses(said, found);
  check_shard(recipe.shard, found);
  check_precision(recipe, said, found);
  check_steps(recipe, said, found);
  check_initial_weights(recipe.checkpoint, found);
  check_warmup_and_decay(recipe, found);
  check_sequence(recipe, found);
}

}  // namespace echelon::recipe
