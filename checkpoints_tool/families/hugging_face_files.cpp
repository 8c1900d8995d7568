#include "checkpoints_tool/families/hugging_face_files.h"

#include <utility>

#include "base/error.h"
#include "base/foreign_json.h"
#include "checkpoint/format/json.h"

namespace echelon::tool {
namespace {

checkpoint::Json parse_config(const std::string& text) {
  checkpoint::Json config = checkpoint::parse_json(text, "config.json");
  if (!config.is_object()) throw Error(Code::kCheckpoint, "config.json: expected a JSON object");
  return config;
}

}  // namespace

std::string config_with_dtype(const std::string& text, OutputType dtype) {
  checkpoint::Json config = parse_config(text);
  if (dtype == OutputType::kSame) return text;
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (config.contains(key)) config[key] = dtype == OutputType::kBf16 ? "bfloat16" : "float32";
  }
  return config.dump(2) + "\n";
}

std::string config_with_flags(const std::string& text, const std::map<std::string, bool>& flags) {
  checkpoint::Json config = parse_config(text);
  bool changed = false;
  for (const auto& [name, value] : flags) {
    const bool stated = config.contains(name) && config[name].is_boolean();
    if (stated ? config[name] == value : value) continue;
    config[name] = value;
    changed = true;
  }
  return changed ? config.dump(2) + "\n" : text;
}

std::string generation_config(const std::string& text) {
  const checkpoint::Json config = parse_config(text);
  if (!config.contains("eos_token_id")) return "";  // the model cannot generate
  checkpoint::Json made{{"_from_model_config", true}};
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"}) {
    if (config.contains(key) && !config[key].is_null()) made[key] = config[key];
  }
  return made.dump(2) + "\n";
}

std::string tokenizer_config(const std::string& text, const std::string& tokenizer) {
  const checkpoint::Json config = parse_config(text);
  const checkpoint::Json json = read_foreign_json(tokenizer).value;
  if (!json.is_object()) return "";
  // Without a class transformers uses that of the model's family, and some of those override the file.
  checkpoint::Json made{{"tokenizer_class", "PreTrainedTokenizerFast"},
                        {"clean_up_tokenization_spaces", false}};
  const checkpoint::Json added = json.value("added_tokens", checkpoint::Json::array());
  for (const auto& [key, id_key] :
       {std::pair{"bos_token", "bos_token_id"}, std::pair{"eos_token", "eos_token_id"},
        std::pair{"pad_token", "pad_token_id"}}) {
    if (!config.contains(id_key) || !config[id_key].is_number_integer()) continue;
    for (const checkpoint::Json& token : added) {
      if (token.is_object() && token.contains("id") && token["id"] == config[id_key] &&
          token.contains("content") && token["content"].is_string())
        made[key] = token["content"];
    }
  }
  if (config.contains("max_position_embeddings"))
    made["model_max_length"] = config["max_position_embeddings"];
  if (config.contains("n_positions")) made["model_max_length"] = config["n_positions"];
  return made.dump(2) + "\n";
}

}  // namespace echelon::tool
