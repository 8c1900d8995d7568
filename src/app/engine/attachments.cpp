#include "app/engine/attachments.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/foreign_json.h"
#include "base/str.h"
#include "data/chat/chat_encoder.h"
#include "data/loader.h"
#include "model/adapter_config.h"
#include "recipe/load.h"
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

/// Every id is stated, because transformers replaces a missing id by its own default. `turn_end`: of chats,
/// else -1.
std::string with_special_ids(const std::string& text, const RunTexts& texts, std::int32_t turn_end) {
  Json config = parse_foreign_json(text, "config.json", Code::kCheckpoint);
  if (texts.tokenizer != nullptr && !texts.states_ends) {
    config["bos_token_id"] = id_or_null(texts.tokenizer->bos_id());
    config["eos_token_id"] = id_or_null(turn_end >= 0 ? turn_end : texts.tokenizer->eos_id());
    return config.dump(2) + "\n";
  }
  const std::string& earlier = texts.earlier.config;
  const Json ids = earlier.empty() ? Json::object() : read_foreign_json(earlier).value;
  for (const char* key : {"bos_token_id", "eos_token_id"}) config[key] = ids.value(key, Json(nullptr));
  if (ids.contains("pad_token_id")) config["pad_token_id"] = ids["pad_token_id"];
  // A base model ends documents; without the end of a turn it would speak for the user as well.
  const std::vector<std::int32_t> ends = end_ids_of(config.dump(), "config.json");
  if (turn_end >= 0 && std::find(ends.begin(), ends.end(), turn_end) == ends.end()) {
    config["eos_token_id"] = ends;
    config["eos_token_id"].push_back(turn_end);
  }
  return config.dump(2) + "\n";
}

/// Adds the template of chats and what it goes with, which `prepare` left beside the tokens. Returns what
/// ends a turn, or -1.
std::int32_t add_template(const TokenizerFolder& folder, const Tokenizer& tokenizer,
                          std::map<std::string, std::string>& files) {
  if (folder.text(kChatTemplate).empty()) return -1;  // by an earlier version
  for (const char* name : {kChatTemplate, kTokenizerConfig}) {
    if (std::string text = folder.text(name); !text.empty()) files[name] = std::move(text);
  }
  const data::ChatOptions options;
  return data::ChatEncoder(load_chat_source(options, folder, tokenizer), options, tokenizer).turn_end();
}

}  // namespace

RunTexts run_texts(const Recipe& recipe) {
  if (takes_images(recipe.model.kind)) return {};
  RunTexts texts{.path = tokenizer_path(recipe.data),
                 .tokenizer = load_tokenizer(recipe.data),
                 .earlier = earlier_model(recipe)};
  texts.states_ends = texts.tokenizer && states_ends(texts.earlier, recipe);
  return texts;
}

std::map<std::string, std::string> attachments_of(const Recipe& recipe, const Model& model,
                                                  const RunTexts& texts) {
  std::map<std::string, std::string> files{{"recipe.yaml", to_yaml(recipe)},
                                           {"config.json", model.hugging_face_config()}};
  if (recipe.lora.rank > 0) files["adapter_config.json"] = adapter_config(recipe.model, recipe.lora);
  if (takes_images(recipe.model.kind)) return files;
  std::int32_t turn_end = -1;
  if (texts.tokenizer != nullptr) {
    std::string content = read_tokenizer_model(texts.path);
    const std::string name = tokenizer_file_name(content);
    if (name == "tokenizer.model") {
      std::string json = data::tokenizer_json_of(content, takes_pairs(recipe.model.kind));
      if (!json.empty()) files["tokenizer.json"] = std::move(json);
    }
    files[name] = std::move(content);
    if (gives_chats(recipe.data.kind))
      turn_end = add_template(TokenizerFolder(texts.path), *texts.tokenizer, files);
  }
  files["config.json"] = with_special_ids(files["config.json"], texts, turn_end);
  return files;
}

namespace {

/// `key`: asks for texts. Throws Error(kData) if there is no tokenizer.
TextOptions text_for(const std::string& key, const DataOptions& data, const RunTexts& texts) {
  if (!texts.tokenizer) {
    throw Error(Code::kData, str(key, " is set, but there is no tokenizer: expected one beside '", data.path,
                                 "', or data.tokenizer"));
  }
  if (!texts.states_ends) return {texts.tokenizer, {texts.tokenizer->eos_id()}};
  const std::vector<std::int32_t> ends = end_ids_of(texts.earlier.config, "config.json");
  return {texts.tokenizer, {ends.begin(), ends.end()}};
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
