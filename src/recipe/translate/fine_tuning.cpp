#include "base/number.h"
#include "base/str.h"
#include "recipe/translate/collected.h"
#include "recipe/yaml/writer.h"

namespace echelon::recipe {
namespace {

/// "[\"q_proj\", \"v_proj\"]", also of "q_proj, v_proj".
std::string list_of(const std::string& text) {
  if (text.starts_with('[')) return text;
  const auto items = mapped(split(text, ','), [](const std::string& item) { return quoted(trimmed(item)); });
  return str('[', join(items, ", "), ']');
}

/// The patterns of names in a list: peft asks whether a module's name ends with one.
std::string ends_of(std::string text) {
  std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == '"' || c == ' '; });
  const auto patterns = mapped(split(text, ','), [](const std::string& end) { return quoted("*" + end); });
  return str('[', join(patterns, ", "), ']');
}

/// Are adapters trained? Remarks what else is not all weights.
bool has_adapters(Trainer trainer, bool stated, Collected& recipe) {
  if (trainer == Trainer::kAutoModel) return stated;
  const Setting* adapter = recipe.input("lora.rank");  // the setting that switches them on
  if (adapter == nullptr) return trainer == Trainer::kLlamaFactory;
  if (trainer == Trainer::kLlamaFactory && adapter->text == "full") return false;
  if (trainer == Trainer::kLlamaFactory && adapter->text == "freeze")
    recipe.remark(*adapter, "weights of single blocks are not frozen; adapters are trained in their place");
  else if (trainer != Trainer::kTrainingArguments && adapter->text != "lora")
    recipe.remark(*adapter, "adapters are those of LoRA, beside weights that are not quantized");
  return true;
}

void make_widths(Trainer trainer, Collected& recipe) {
  recipe.make_default("lora.rank", trainer == Trainer::kTrainingArguments ? "16" : "8");
  std::int64_t rank = 0;
  if (trainer != Trainer::kLlamaFactory) {
    if (trainer != Trainer::kAxolotl) recipe.make_default("lora.alpha", "32");
  } else if (read_integer(recipe.made("lora.rank"), rank).empty()) {
    recipe.make_default("lora.alpha", std::to_string(2 * rank));
  }
  if (trainer == Trainer::kTrainingArguments) recipe.make_default("lora.dropout", "0.05");
}

}  // namespace

void make_adapters(Trainer trainer, bool stated, Collected& recipe) {
  const Setting* modules = recipe.input("lora.modules");
  const auto is_all = [](const std::string& text) {  // the default
    return text == "*" || text == "all" || text == "all-linear";
  };
  if (modules != nullptr && modules->text.find_first_of("()|^$+\\") != std::string::npos)
    recipe.remark(*modules, "name the modules in lora.modules: it takes no regular expression");
  else if (modules != nullptr && !is_all(modules->text))
    recipe.make("lora.modules", list_of(modules->text), modules->path);
  if (const Setting* whole = recipe.input("lora.also_train"))
    recipe.make("lora.also_train", ends_of(whole->text), whole->path);
  if (has_adapters(trainer, stated, recipe)) return make_widths(trainer, recipe);
  // Then their widths mean nothing.
  std::erase_if(recipe.lines, [](const auto& line) { return line.first.starts_with("lora."); });
}

bool make_preference(Trainer trainer, Collected& recipe) {
  const bool staged = trainer == Trainer::kLlamaFactory;
  const Setting* stage = recipe.input("stage");
  const bool has_stage = recipe.says("stage", "dpo");
  if (stage != nullptr && !has_stage && stage->text != "sft" && stage->text != "pt")
    recipe.remark(*stage, "the recipe does not have this objective, which has no equal");
  if (staged && !has_stage) return false;
  const Setting* beta = recipe.input("train.dpo.beta");
  const Setting* loss = recipe.input("loss_type");
  const bool sigmoid = loss == nullptr || loss->text == "sigmoid" || loss->text == "[\"sigmoid\"]";
  if (!sigmoid && loss->text != "nll")  // SFTTrainer's
    recipe.remark(*loss,
                  "the recipe does not have this objective, which has no equal; for DPO, docs/preference.md, "
                  "set data.kind: preference and train.dpo.beta");
  if (!sigmoid || !(staged || beta != nullptr || loss != nullptr)) return false;
  if (beta != nullptr) recipe.make("train.dpo.beta", beta->text, beta->path);
  recipe.make_default("train.dpo.beta", "0.1");
  if (!staged && recipe.lines["optim.lr"].comment == kTheirDefault) recipe.lines["optim.lr"].value = "1.0e-6";
  recipe.remarks.push_back(
      str("there a sample is one pair, and ", staged ? "cutoff_len" : "max_length",
          " is of one answer; here data.seq_len is of as many pairs as fit, both answers of each: raise it "
          "for long pairs, divide train.global_batch_size by the number"));
  return true;
}

}  // namespace echelon::recipe
