#include "app/engine/attachments.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "app/earlier_model.h"
#include "base/error.h"
#include "base/foreign_json.h"
#include "data/loader.h"
#include "recipe/load.h"
#include "text/sentencepiece/sentencepiece_json.h"
#include "text/tokenizer.h"
#include "text/tokenizer_digest.h"

namespace echelon::app {
namespace {

using nlohmann::json;

json id_or_null(std::int32_t id) {
  return id < 0 ? json(nullptr) : json(id);
}

/// Every id is stated, because transformers replaces a missing id by its own default.
std::string with_special_ids(const std::string& text, const Tokenizer* tokenizer, const Recipe& recipe) {
  json config = parse_foreign_json(text, "config.json", Code::kCheckpoint);
  const EarlierModel earlier = earlier_model(recipe);
  if (tokenizer != nullptr && !states_ends(earlier, recipe)) {
    config["bos_token_id"] = id_or_null(tokenizer->bos_id());
    config["eos_token_id"] = id_or_null(tokenizer->eos_id());
    return config.dump(2) + "\n";
  }
  const json ids = earlier.config.empty() ? json::object() : read_foreign_json(earlier.config).value;
  for (const char* key : {"bos_token_id", "eos_token_id"}) config[key] = ids.value(key, json(nullptr));
  if (ids.contains("pad_token_id")) config["pad_token_id"] = ids["pad_token_id"];
  return config.dump(2) + "\n";
}

}  // namespace

std::map<std::string, std::string> attachments_of(const Recipe& recipe, const Model& model) {
  std::map<std::string, std::string> files{{"recipe.yaml", to_yaml(recipe)},
                                           {"config.json", model.hugging_face_config()}};
  if (takes_images(recipe.model.kind)) return files;
  std::unique_ptr<const Tokenizer> tokenizer;
  if (const std::string path = tokenizer_path(recipe.data); !path.empty()) {
    std::string content = read_tokenizer_model(path);
    tokenizer = load_tokenizer(recipe.data);
    const std::string name = tokenizer_file_name(content);
    if (name == "tokenizer.model") {
      std::string json = data::tokenizer_json_of(content, takes_pairs(recipe.model.kind));
      if (!json.empty()) files["tokenizer.json"] = std::move(json);
    }
    files[name] = std::move(content);
  }
  files["config.json"] = with_special_ids(files["config.json"], tokenizer.get(), recipe);
  return files;
}

}  // namespace echelon::app
