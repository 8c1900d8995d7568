#include "app/engine/attachments.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/foreign_json.h"
#include "base/log.h"
#include "base/str.h"
#include "data/chat/chat_encoder.h"
#include "data/loader.h"
#include "data/prepared.h"
#include "families/model_family.h"
#include "recipe/load.h"
#include "shapes/lora.h"
#include "text/sentencepiece/sentencepiece_json.h"
#include "text/special_ids.h"
#include "text/tokenizer_digest.h"
#include "text/tokenizer_folder.h"

namespace echelon::app {
namespace {

using Json = nlohmann::json;

Json id_or_null(std::int32_t id) {
  return id < 0 ? Json(nullptr) : Json(id);
}

/// The adapter_config.json with which peft opens exported adapters.
std::string adapter_config(const ModelOptions& model, const LoraOptions& lora) {
  const std::vector<std::string> whole = modules_trained_whole(model, lora);
  nlohmann::ordered_json config{{"peft_type", "LORA"},
                                {"task_type", "CAUSAL_LM"},
                                {"base_model_name_or_path", nullptr},
                                {"r", lora.rank},
                                {"lora_alpha", lora.alpha},
                                {"use_rslora", lora.use_rslora},
                                {"lora_dropout", lora.dropout},
                                {"target_modules", target_modules(model, lora)},
                                {"modules_to_save", nullptr},
                                {"bias", "none"},
                                {"fan_in_fan_out", false},
                                {"init_lora_weights", true},
                                {"inference_mode", true}};
  if (!whole.empty()) config["modules_to_save"] = whole;
  return config.dump(2) + "\n";
}

/// Adds the template of chats and what it goes with.
void add_template(const TokenizerFolder& folder, std::map<std::string, std::string>& files) {
  for (const char* name : {kChatTemplate, kTokenizerConfig}) {
    if (std::string text = folder.text(name); !text.empty()) files[name] = std::move(text);
  }
}

/// The folder with the template of the chats: `prepare` leaves it beside the tokens, unless they are in the
/// tokenizer's own.
TokenizerFolder template_folder(const DataOptions& data, const RunTexts& texts) {
  TokenizerFolder beside{std::filesystem::path(data::first_file(data))};
  return beside.text(kChatTemplate).empty() ? TokenizerFolder(texts.path) : beside;
}

/// The tokens that end turns: those that are trained, or, of data that an earlier version prepared, the one
/// that the template writes.
std::vector<std::int32_t> turn_ends_of(const DataOptions& data, const RunTexts& texts) {
  if (!gives_chats(data.kind)) return {};
  std::vector<std::int32_t> ends = data::trained_turn_ends(data);
  if (!ends.empty() || texts.tokenizer == nullptr) return ends;
  const TokenizerFolder folder = template_folder(data, texts);
  if (folder.text(kChatTemplate).empty()) return {};
  const data::ChatOptions options;
  const data::ChatEncoder encoder(load_chat_source(options, folder, *texts.tokenizer), options,
                                  *texts.tokenizer);
  if (const std::int32_t end = encoder.turn_end(); end >= 0) ends.push_back(end);
  return ends;
}

/// Throws Error(kData) if there is no tokenizer; `key` asks for texts.
void require_tokenizer(const char* key, const DataOptions& data, const RunTexts& texts) {
  if (texts.tokenizer) return;
  throw Error(Code::kData, key, " is set, but there is no tokenizer: expected one beside '",
              data::first_file(data), "', or data.tokenizer");
}

}  // namespace

bool asks_for_texts(const Recipe& recipe) {
  return recipe.data.validation.generate > 0 || !recipe.evaluation.tasks.empty();
}

RunTexts run_texts(const Recipe& recipe) {
  RunTexts texts;
  if (!takes_images(recipe.model.kind)) {
    texts.path = tokenizer_path(recipe.data);
    texts.tokenizer = load_tokenizer(recipe.data);
    texts.turn_ends = turn_ends_of(recipe.data, texts);
  }
  if (recipe.data.validation.generate > 0) require_tokenizer("data.validation.generate", recipe.data, texts);
  if (!recipe.evaluation.tasks.empty()) require_tokenizer("evaluation.tasks", recipe.data, texts);
  return texts;
}

std::map<std::string, std::string> attachments_of(const Recipe& recipe, const RunTexts& texts) {
  std::map<std::string, std::string> files{{"recipe.yaml", to_yaml(recipe)},
                                           {"config.json", families::hugging_face_config(recipe.model)}};
  if (recipe.lora.rank > 0) files["adapter_config.json"] = adapter_config(recipe.model, recipe.lora);
  if (takes_images(recipe.model.kind)) return files;
  if (texts.tokenizer != nullptr) {
    std::string content = read_tokenizer_model(texts.path);
    const std::string name = tokenizer_file_name(content);
    if (name == "tokenizer.model") {
      std::string json = data::tokenizer_json_of(content, takes_pairs(recipe.model.kind));
      if (!json.empty()) files["tokenizer.json"] = std::move(json);
    }
    files[name] = std::move(content);
    if (gives_chats(recipe.data.kind)) add_template(template_folder(recipe.data, texts), files);
  }
  if (gives_chats(recipe.data.kind) && texts.turn_ends.empty()) {
    log::warn(str("no token is known to end the turns of '", data::first_file(recipe.data),
                  "', so models of this run may go on behind an answer: prepare the data again, with "
                  "--end-of-turn TOKEN if they end with an unusual one"));
  }
  return files;
}

std::vector<std::int64_t> set_special_ids(std::string& config, const std::string& earlier,
                                          const RunTexts& texts) {
  const Json theirs = earlier.empty() ? Json::object() : read_foreign_json(earlier).value;
  std::vector<std::int32_t> ends;
  if (!earlier.empty()) ends = end_ids_of(earlier, "config.json");
  const bool of_data = ends.empty() && texts.tokenizer != nullptr;
  if (of_data && texts.turn_ends.empty() && texts.tokenizer->eos_id() >= 0)
    ends.push_back(texts.tokenizer->eos_id());
  // A base model ends documents; without the end of a turn it would speak for the user as well.
  for (const std::int32_t end : texts.turn_ends) {
    if (std::ranges::find(ends, end) == ends.end()) ends.push_back(end);
  }
  Json ours = parse_foreign_json(config, "config.json", Code::kCheckpoint);
  // Every id is stated, because transformers replaces a missing id by its own default.
  ours["eos_token_id"] = ends.size() == 1 ? Json(ends.front()) : ends.empty() ? Json(nullptr) : Json(ends);
  ours["bos_token_id"] =
      of_data ? id_or_null(texts.tokenizer->bos_id()) : theirs.value("bos_token_id", Json(nullptr));
  if (!of_data && theirs.contains("pad_token_id")) ours["pad_token_id"] = theirs["pad_token_id"];
  config = ours.dump(2) + "\n";
  return {ends.begin(), ends.end()};
}

std::unique_ptr<RunEvaluation> evaluation_of(const Recipe& recipe, const RunTexts& texts) {
  if (recipe.evaluation.tasks.empty()) return nullptr;
  const TaskPasses passes{.tokens = recipe.train.micro_batch_size * recipe.data.seq_len,
                          .prompts = recipe.train.micro_batch_size};
  return std::make_unique<RunEvaluation>(
      recipe.evaluation, *texts.tokenizer,
      data::ModelLimits{longest_sequence(recipe.model), recipe.model.vocab_size}, passes);
}

}  // namespace echelon::app
