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

/// Every id is stated, because transformers replaces a missing id by its own default.
std::string with_special_ids(const std::string& text, const RunTexts& texts) {
  Json config = parse_foreign_json(text, "config.json", Code::kCheckpoint);
  config["eos_token_id"] = texts.ends.size() == 1 ? Json(texts.ends.front()) : Json(texts.ends);
  if (texts.ends.empty()) config["eos_token_id"] = nullptr;
  if (texts.tokenizer != nullptr && !texts.states_ends) {
    config["bos_token_id"] = id_or_null(texts.tokenizer->bos_id());
    return config.dump(2) + "\n";
  }
  const std::string& earlier = texts.earlier.config;
  const Json ids = earlier.empty() ? Json::object() : read_foreign_json(earlier).value;
  config["bos_token_id"] = ids.value("bos_token_id", Json(nullptr));
  if (ids.contains("pad_token_id")) config["pad_token_id"] = ids["pad_token_id"];
  return config.dump(2) + "\n";
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

std::vector<std::int32_t> ends_of(const RunTexts& texts) {
  std::vector<std::int32_t> ends;
  if (texts.tokenizer == nullptr || texts.states_ends) {
    if (!texts.earlier.config.empty()) ends = end_ids_of(texts.earlier.config, "config.json");
  } else if (texts.turn_ends.empty() && texts.tokenizer->eos_id() >= 0) {
    ends.push_back(texts.tokenizer->eos_id());
  }
  // A base model ends documents; without the end of a turn it would speak for the user as well.
  for (const std::int32_t end : texts.turn_ends) {
    if (std::ranges::find(ends, end) == ends.end()) ends.push_back(end);
  }
  return ends;
}

}  // namespace

RunTexts run_texts(const Recipe& recipe) {
  if (takes_images(recipe.model.kind)) return {};
  RunTexts texts{.path = tokenizer_path(recipe.data),
                 .tokenizer = load_tokenizer(recipe.data),
                 .earlier = earlier_model(recipe)};
  texts.states_ends = texts.tokenizer && states_ends(texts.earlier, recipe);
  texts.turn_ends = turn_ends_of(recipe.data, texts);
  texts.ends = ends_of(texts);
  return texts;
}

std::map<std::string, std::string> attachments_of(const Recipe& recipe, const Model& model,
                                                  const RunTexts& texts) {
  std::map<std::string, std::string> files{{"recipe.yaml", to_yaml(recipe)},
                                           {"config.json", model.hugging_face_config()}};
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
  files["config.json"] = with_special_ids(files["config.json"], texts);
  return files;
}

namespace {

/// `key`: asks for texts. Throws Error(kData) if there is no tokenizer.
TextOptions text_for(const std::string& key, const DataOptions& data, const RunTexts& texts) {
  if (!texts.tokenizer) {
    throw Error(Code::kData, key, " is set, but there is no tokenizer: expected one beside '",
                data::first_file(data), "', or data.tokenizer");
  }
  return {texts.tokenizer, {texts.ends.begin(), texts.ends.end()}};
}

}  // namespace

TextOptions validation_text(const DataOptions& data, const RunTexts& texts) {
  if (data.validation.generate == 0) return {};
  return text_for("data.validation.generate", data, texts);
}

std::unique_ptr<RunEvaluation> evaluation_of(const Recipe& recipe, const RunTexts& texts) {
  if (recipe.evaluation.tasks.empty()) return nullptr;
  const TaskPasses passes{.tokens = recipe.train.micro_batch_size * recipe.data.seq_len,
                          .prompts = recipe.train.micro_batch_size};
  return std::make_unique<RunEvaluation>(
      recipe.evaluation, text_for("evaluation.tasks", recipe.data, texts),
      data::ModelLimits{longest_sequence(recipe.model), recipe.model.vocab_size}, passes);
}

}  // namespace echelon::app
