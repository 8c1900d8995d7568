#include "recipe/translate/translate.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/number.h"
#include "base/str.h"
#include "recipe/check/contradictions.h"
#include "recipe/keys/keys.h"
#include "recipe/translate/collected.h"
#include "recipe/yaml/writer.h"

namespace echelon::recipe {
namespace {

std::string last_part(const std::string& path, char separator) {
  return path.substr(path.rfind(separator) + 1);
}

bool fits(const Equivalent& rule, const std::string& path) {
  return std::ranges::any_of(words_in(rule.theirs), [&](std::string_view theirs) {
    const bool begin = theirs.ends_with('.') || theirs.ends_with('_');
    return begin ? path.starts_with(theirs) : path == theirs;
  });
}

class Translator : Collected {
 public:
  Translator(Trainer trainer, int ranks) : trainer_(trainer), ranks_(ranks) {
    for (const DraftLine& line : defaults_of(trainer)) lines[line.key] = line;
  }

  void take(const Setting& setting) {
    packed_ = packed_ || (setting.path.ends_with(".packed_sequence_size") && setting.text != "0");
    if (!setting.text.empty()) sections_.insert(setting.path.substr(0, setting.path.find('.')));
    const auto rules = equivalents_of(trainer_);
    const auto rule =
        std::ranges::find_if(rules, [&](const Equivalent& one) { return fits(one, setting.path); });
    const bool is_known = rule != rules.end();
    if (!is_known && setting.is_off()) return;
    if (!is_known) return remark(setting, "no equal is known");
    if (const auto word = rule->take == Take::kWords ? equal_of(rule->text, setting.text) : std::nullopt)
      return make(rule->key, *word, setting.path);
    if (setting.is_off()) return;
    switch (rule->take) {
      case Take::kCopy: return make(rule->key, setting.text, setting.path);
      case Take::kCount:
        if (const auto value = count_of(setting, rule->key))
          make(rule->key, std::to_string(*value), setting.path);
        return;
      case Take::kText: return make(rule->key, quoted(setting.text), setting.path);
      case Take::kWords: return remark(setting, str(rule->key, " has no equal of it"));
      case Take::kOwn: return;
      case Take::kOne:
        if (setting.text == "1" || setting.text == "-1") return;
        return remark(setting, rule->text);
      case Take::kNone: return remark(setting, rule->text);
      case Take::kInput: inputs[std::string(rule->key)].push_back(setting); return;
    }
  }

  Translation finish() {
    make_model();
    prefers_ = make_preference(trainer_, *this);
    make_data();
    make_batch();
    make_length();
    make_optimizer();
    make_schedule(trainer_, steps_, sections_.contains("lr_scheduler"), *this);
    make_validation();
    make_adapters(trainer_, sections_.contains("peft"), *this);
    make_exemptions();
    make_products();
    make_recomputation();
    make_trackers();
    leave_out_unused();
    Translation translation{{}, std::move(remarks)};
    for (const Key& key : keys()) {
      const auto line = lines.find(key.path);
      if (line != lines.end()) translation.lines.push_back(line->second);
    }
    return translation;
  }

 private:
  void make_model() {
    if (const Setting* name = input("model.from")) {
      folder_ = last_part(name->text, '/');
      make("model.from", recipe::quoted(folder_),
           str(name->path, "; a folder: hf download ", printable(name->text), " --local-dir ", folder_));
    }
    const auto titan = inputs.find("model.preset");
    if (titan == inputs.end()) return;
    std::string name;
    for (const Setting& setting : titan->second) name += (name.empty() ? "" : "-") + setting.text;
    const auto preset = equal_of(
        "llama3-8B=llama_3_1_8b llama3-70B=llama_70b qwen3-0.6B=qwen3_0_6b qwen3-1.7B=qwen3_1_7b "
        "qwen3-4B=qwen3_4b qwen3-8B=qwen3_8b qwen3-14B=qwen3_14b qwen3-32B=qwen3_32b",
        name);
    if (preset)
      make("model.preset", *preset, titan->second.back().path);
    else
      remark(titan->second.back(),
             str("no preset is this model ('", printable(name), "'); set the sizes of section model"));
  }

  void make_data() {
    const auto found = inputs.find("data.path");
    const bool pretrains = trainer_ == Trainer::kTorchtitan ||
                           (trainer_ == Trainer::kTrainingArguments && folder_.empty()) ||
                           (trainer_ == Trainer::kLlamaFactory && says("stage", "pt"));
    bool chats = !pretrains;
    std::string sources;
    int line = 0;
    if (found != inputs.end()) {
      for (const Setting& setting : found->second) {
        const std::string leaf = last_part(setting.path, '.');
        if (setting.text == "completion" || setting.text.find("nanogpt") != std::string::npos ||
            setting.text.find("megatron") != std::string::npos)
          chats = false;
        if (!has_word("path dataset dataset_name path_or_dataset dataset_path", leaf)) continue;
        sources += (sources.empty() ? "" : " ") + setting.text;
        line = line == 0 ? setting.line : line;
      }
    }
    const Setting* validation = input("data.validation.path");
    double share = 0;
    const bool is_size = validation != nullptr && validation->path.starts_with("val_") &&
                         read_number(validation->text, share).empty();
    const bool by_share = is_size && share < 1;
    if (is_size && !by_share) remark(*validation, "--validation-fraction of the command takes a share");
    if (by_share && share == 0) validation = nullptr;
    const std::string kind = prefers_ ? "preference" : chats ? "chat" : "tokens";
    make("data.kind", kind, prefers_ ? "beta or loss_type, taken for DPO's" : "");
    make("data.path", "data/train.tok", "see the command above");
    if (validation != nullptr) make("data.validation.path", "data/valid.tok", validation->path);
    const bool packs = trainer_ == Trainer::kAutoModel ? packed_ : input("data.packing") != nullptr;
    if (kind == "chat" && !packs)
      remarks.push_back(
          "there a sample is one conversation, here as many as fit into data.seq_len: divide "
          "train.global_batch_size by that many");
    const Setting* tokenizer = input("data.tokenizer");
    const std::string name = tokenizer != nullptr ? last_part(tokenizer->text, '/')
                             : folder_.empty()    ? "FOLDER"
                                                  : folder_;
    const std::string form = kind == "chat" ? line_form(trainer_, *this) : "";
    remarks.insert(
        remarks.begin(),
        str(sources.empty() ? "the data" : str("line ", line, ": ", printable(sources)),
            "; download it, then: echelon prepare FILES ",
            kind == "tokens" ? "" : str("--format ", kind, form, ' '), "--tokenizer ", printable(name),
            " --output data",
            by_share && validation != nullptr ? " --validation-fraction " + validation->text : ""));
  }

  void make_batch() {
    const std::int64_t micro = count_or_default("train.micro_batch_size").value_or(1);
    const bool whole = trainer_ == Trainer::kAutoModel || trainer_ == Trainer::kTorchtitan;
    const auto given = count("train.global_batch_size");
    const std::int64_t passes = whole ? 1 : given.value_or(1);
    const std::int64_t batch = whole && given ? *given : micro * passes * ranks_;
    make("train.micro_batch_size", std::to_string(micro), "of a rank");
    make("train.global_batch_size", std::to_string(batch),
         whole && given ? "of all ranks"
                        : str(micro, " x ", counted(passes, "pass"), " x ", counted(ranks_, "rank"),
                              ranks_ == 1 ? "; --ranks N for N" : ""));
    if (const auto copies = count("shard.mesh.replicate"); copies && *copies > 1) {
      make("shard.strategy", "hybrid_shard", input("shard.mesh.replicate")->path);
      make("shard.mesh.replicate", std::to_string(*copies), input("shard.mesh.replicate")->path);
    }
  }

  /// What a part of an epoch is in steps is known only with the data.
  std::optional<std::int64_t> whole_epochs() {
    constexpr double kMost = 1e6;
    const Setting* given = input("train.epochs");
    double number = 0;
    if (given == nullptr || !read_number(given->text, number).empty() || !(number > 0 && number < kMost) ||
        number == std::ceil(number))
      return count("train.epochs");
    remark(*given,
           "rounded up in train.epochs; to end there, set train.steps in its place: this x the samples of an "
           "epoch / train.global_batch_size, which `echelon train` tells first");
    return static_cast<std::int64_t>(std::ceil(number));
  }

  void make_length() {
    steps_ = count_or_default("train.steps");
    const auto epochs = steps_ ? std::nullopt : whole_epochs();
    if (steps_ && input("train.steps") != nullptr)
      make("train.steps", std::to_string(*steps_), input("train.steps")->path);
    if (epochs) make("train.epochs", std::to_string(*epochs), input("train.epochs")->path);
    if (steps_ && trainer_ == Trainer::kAutoModel && count("train.epochs"))
      remark(*input("train.epochs"),
             "there the first of both ends a run; set train.epochs in place of train.steps if it is this");
    if (!steps_ && !epochs)
      make_default("train.epochs", trainer_ == Trainer::kAutoModel ? "10"
                                   : takes_arguments(trainer_)     ? "3"
                                                                   : "1");
  }

  void make_optimizer() {
    make_betas();
    const Setting* kind = input("optim.kind");
    if (kind == nullptr) return;
    std::string name = in_lower_case(last_part(kind->text, '.'));
    if (trainer_ == Trainer::kAutoModel && lines["optim.weight_decay"].comment == kTheirDefault &&
        name.find("adamw") == name.npos)  // the default of torch's class
      lines["optim.weight_decay"].value = name == "muon" ? "0.1" : "0.0";
    if (name == "adam" && !decays()) name = "adamw";  // the same without decay
    if (name.find("8bit") != name.npos) remark(*kind, "its states are kept in fp32");
    if (name.find("adamw") != name.npos || name == "fusedadam" || name == "muon" || name == "sgd")
      make("optim.kind", name == "muon" || name == "sgd" ? name : "adamw", kind->path);
    else
      remark(*kind, name == "adam"
                        ? "Adam's decay is part of the gradient; AdamW's, which is set here, is not"
                        : "optim.kind has no equal of it");
    if (name != "muon") return;
    for (const char* key : {"momentum", "nesterov"}) {
      if (auto line = lines.extract(str("optim.", key))) {
        line.key() = line.mapped().key = str("optim.muon.", key);
        lines.insert(std::move(line));
      }
    }
    make_default("optim.muon.scale", "spectral");
    if (trainer_ == Trainer::kAxolotl)
      remark(*kind, "there the factor of a wide matrix is sqrt(rows / columns); of spectral it is 1");
  }

  [[nodiscard]] bool decays() const {
    double value = 0;
    return !read_number(made("optim.weight_decay"), value).empty() || value != 0;
  }

  /// The Trainer of transformers decays neither norms nor biases.
  void make_exemptions() {
    if (!is_by_transformers(trainer_) || !decays() || !made("lora.rank").empty()) return;
    make("optim.no_decay", "[\"*norm*\"]",
         "as there; \"*ln_*\" for a GPT-2; add \"*.bias\" for a model with biases");
  }

  void make_betas() {
    if (const auto betas = inputs.find("optim.betas"); betas != inputs.end()) {
      std::string first = "0.9";
      std::string second = trainer_ == Trainer::kTorchtitan ? "0.95" : "0.999";
      for (const Setting& setting : betas->second)
        (setting.path.ends_with('1') ? first : second) = setting.text;
      make("optim.betas", str('[', first, ", ", second, ']'), betas->second.back().path);
    }
  }

  /// Validation needs data, and says when.
  void make_validation() {
    const bool has_data = !made("data.validation.path").empty();
    const Setting* strategy = input("train.validate_every_epochs");
    const Setting* saves = input("checkpoint.every_steps");
    if (saves != nullptr && saves->text != "steps") {
      lines.erase("checkpoint.every_steps");
      if (saves->text != "no")
        remark(*saves, "set checkpoint.every_steps, or checkpoint.auto_interval: true");
    }
    const Setting* times = input("evals_per_epoch");
    if (times != nullptr && times->text != "1" && times->text != "0")
      remark(*times, "set train.validate_every_steps, or validate_every_epochs");
    if (strategy == nullptr) strategy = times;
    const bool by_epoch = strategy != nullptr
                              ? strategy->text == "epoch" || (strategy == times && times->text == "1")
                              : trainer_ == Trainer::kAxolotl && made("train.validate_every_steps").empty();
    if (has_data && by_epoch) {
      lines.erase("train.validate_every_steps");
      make("train.validate_every_epochs", "1", strategy != nullptr ? strategy->path : kTheirDefault);
    }
    if (has_data) return;
    if (const auto line = lines.find("train.validate_every_steps");
        line != lines.end() && line->second.comment != kTheirDefault)
      remarks.push_back(
          str(line->second.comment, ": ", line->second.value,
              "; validation needs data: set data.validation.path and train.validate_every_steps"));
    else if (strategy != nullptr && strategy != times && strategy->text != "no")
      remark(*strategy, "validation needs data: set data.validation.path and an interval");
    for (const char* key : {"train.validate_every_steps", "data.validation.batches"}) lines.erase(key);
  }

  /// A recipe with keys that its optimizer or schedule does not use would be refused.
  void leave_out_unused() {
    Recipe chosen;
    if (const auto kind = choice_of<OptimKind>(made("optim.kind"))) chosen.optim.kind = *kind;
    if (const auto kind = choice_of<ScheduleKind>(made("schedule.kind"))) chosen.schedule.kind = *kind;
    std::erase_if(lines, [&](const auto& line) {
      const std::string& key = line.first;
      return (key.starts_with("optim.") || key.starts_with("schedule.")) && !is_used(key, chosen);
    });
  }

  /// fp8 by torchao, whose recipe is tensorwise where none is named.
  void make_products() {
    const Setting* on = nullptr;
    bool tensorwise = true;
    for (const Setting& setting : inputs["precision.matmul"]) {
      if (!setting.path.ends_with("recipe_name")) {
        if (setting.path == "fp8.enabled" || setting.text.find("float8") != std::string::npos)
          on = &setting;
        else
          remark(setting, "no equal is known");
      } else if (setting.text != "tensorwise") {
        tensorwise = false;
        remark(setting, "precision.matmul: fp8 has one scale a matrix (tensorwise)");
      }
    }
    if (on != nullptr && tensorwise) make("precision.matmul", "fp8", on->path);
  }

  /// A run itself writes for TensorBoard; "all" means what is installed there.
  void make_trackers() {
    const Setting* to = input("metrics.tensorboard");
    if (to == nullptr) return;
    std::string names = to->text;
    std::erase_if(names, [](char c) { return c == '[' || c == ']' || c == '"' || c == ' '; });
    bool others = false;
    for (const std::string& name : split(names, ',')) {
      if (name == "tensorboard" || name == "all") make("metrics.tensorboard", "true", to->path);
      others = others || (name != "tensorboard" && name != "none");
    }
    if (others) remark(*to, kTrackers);
  }

  /// torchtitan's "selective" is of every n-th block unless its option is "op".
  void make_recomputation() {
    const Setting* option = input("activation_checkpointing.every_n");
    if (made("activation_checkpointing.policy") != "selective" || (option != nullptr && option->text == "op"))
      return;
    lines["activation_checkpointing.policy"].value = "every_n";
    if (option != nullptr)
      make("activation_checkpointing.every_n", option->text, option->path);
    else
      make_default("activation_checkpointing.every_n", "2");
  }

  Trainer trainer_;
  int ranks_;
  std::set<std::string> sections_;  ///< first parts of paths
  bool packed_ = false;             ///< by AutoModel
  bool prefers_ = false;            ///< trains by DPO
  std::string folder_;              ///< of the model
  std::optional<std::int64_t> steps_;
};

}  // namespace

Trainer trainer_of(const std::string& name, const std::vector<Setting>& settings) {
  const auto has = [&](std::string_view path) {
    return std::ranges::any_of(settings, [&](const Setting& one) {
      return one.path == path || (path.ends_with('.') && one.path.starts_with(path));
    });
  };
  if (has("base_model")) return Trainer::kAxolotl;
  if (has("step_scheduler.")) return Trainer::kAutoModel;
  if (has("training.") && (has("job.") || has("model.flavor"))) return Trainer::kTorchtitan;
  if (has("finetuning_type") || has("cutoff_len")) return Trainer::kLlamaFactory;
  if (has("per_device_train_batch_size") || has("learning_rate") || has("num_train_epochs") ||
      has("output_dir"))
    return Trainer::kTrainingArguments;
  throw Error(
      Code::kUsage, "'", printable(name),
      "' is no configuration that is known here; expected axolotl's YAML (base_model), NeMo "
      "AutoModel's (step_scheduler), torchtitan's TOML ([training]), LLaMA-Factory's YAML (finetuning_type), "
      "or TrainingArguments of transformers as JSON or YAML (per_device_train_batch_size)");
}

Translation translate(Trainer trainer, const std::vector<Setting>& settings, int ranks) {
  Translator translator(trainer, ranks);
  for (const Setting& setting : settings) translator.take(setting);
  return translator.finish();
}

}  // namespace echelon::recipe
