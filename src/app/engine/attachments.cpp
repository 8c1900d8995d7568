#include "app/engine/attachments.h"

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/foreign_json.h"
#include "checkpoint/read/reader.h"
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

/// From the run's newest readable checkpoint, or from the one it starts from.
json earlier_config(const Recipe& recipe) {
  std::vector<std::filesystem::path> sources;
  const std::filesystem::path run = std::filesystem::path(recipe.run.dir) / "checkpoints";
  std::error_code ignored;
  if (std::filesystem::is_directory(run, ignored)) {
    for (const checkpoint::Found& found : checkpoint::list(run)) {
      if (found.committed) sources.insert(sources.begin(), found.folder);
    }
  }
  if (!recipe.checkpoint.init_from.empty()) sources.emplace_back(recipe.checkpoint.init_from);
  for (const std::filesystem::path& from : sources) {
    try {
      json config = read_foreign_json(checkpoint::Reader(from).attachment("config.json")).value;
      if (config.is_object()) return config;
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): restoring reports damage
    }
  }
  return json::object();
}

/// Every id is stated, because transformers replaces a missing id by its own default.
std::string with_special_ids(const std::string& text, const Tokenizer* tokenizer, const Recipe& recipe) {
  json config = parse_foreign_json(text, "config.json", Code::kCheckpoint);
  if (tokenizer != nullptr) {
    config["bos_token_id"] = id_or_null(tokenizer->bos_id());
    config["eos_token_id"] = id_or_null(tokenizer->eos_id());
  } else {
    const json earlier = earlier_config(recipe);
    for (const char* key : {"bos_token_id", "eos_token_id"}) config[key] = earlier.value(key, json(nullptr));
  }
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
    tokenizer = Tokenizer::from_bytes(content, path);
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
