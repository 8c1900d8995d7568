#include "families/hugging_face_files.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/foreign_json.h"
#include "base/str.h"

namespace echelon::families {
namespace {

checkpoint::Json parse_object(const std::string& text, const std::string& what) {
  checkpoint::Json json = checkpoint::parse_json(text, what);
  if (!json.is_object()) throw Error(Code::kCheckpoint, what, ": expected a JSON object");
  return json;
}

checkpoint::Json parse_config(const std::string& text) {
  return parse_object(text, "config.json");
}

/// Takes over the special ids that `from` states. Returns whether that changed anything.
bool take_ids(const checkpoint::Json& from, checkpoint::Json& to) {
  bool changed = false;
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (!from.contains(key) || from[key].is_null() || (to.contains(key) && to[key] == from[key])) continue;
    to[key] = from[key];
    changed = true;
  }
  return changed;
}

/// One id, or several.
std::vector<checkpoint::Json> listed(const checkpoint::Json& config, const char* key) {
  if (!config.contains(key) || config[key].is_null()) return {};
  const checkpoint::Json& ids = config[key];
  return ids.is_array() ? std::vector<checkpoint::Json>(ids.begin(), ids.end()) : std::vector{ids};
}

/// The name of an added token of a tokenizer.json; empty: it has no token with this id.
std::string name_of(const checkpoint::Json& id, const checkpoint::Json& tokenizer) {
  if (!tokenizer.is_object() || !tokenizer.contains("added_tokens")) return "";
  for (const checkpoint::Json& token : tokenizer["added_tokens"]) {
    if (token.is_object() && token.contains("id") && token["id"] == id && token.contains("content") &&
        token["content"].is_string())
      return token["content"];
  }
  return "";
}

/// The value of add_prefix_space in the step ByteLevel: transformers would set another value to its own
/// default. Nothing: there is no such step, or it states none.
std::optional<bool> prefix_space(const checkpoint::Json& tokenizer) {
  checkpoint::Json step = tokenizer.value("pre_tokenizer", checkpoint::Json());
  if (step.is_object() && step.contains("pretokenizers") && step["pretokenizers"].is_array() &&
      !step["pretokenizers"].empty())
    step = checkpoint::Json(step["pretokenizers"].back());
  if (!step.is_object() || step.value("type", checkpoint::Json()) != "ByteLevel") return std::nullopt;
  const checkpoint::Json prefix = step.value("add_prefix_space", checkpoint::Json());
  return prefix.is_boolean() ? std::optional(prefix.get<bool>()) : std::nullopt;
}

}  // namespace

std::string config_with_dtype(const std::string& text, DType dtype) {
  const std::string word = dtype == DType::kBF16  ? "bfloat16"
                           : dtype == DType::kF16 ? "float16"
                           : dtype == DType::kF64 ? "float64"
                                                  : "float32";
  const checkpoint::Json stated = parse_config(text);
  checkpoint::Json config = stated;
  for (const char* key : {"torch_dtype", "dtype"}) {
    if (config.contains(key)) config[key] = word;
  }
  return config == stated ? text : config.dump(2) + "\n";
}

std::string config_with_members(const std::string& text,
                                const std::map<std::string, checkpoint::Json>& members) {
  checkpoint::Json config = parse_config(text);
  bool changed = false;
  for (const auto& [name, value] : members) {
    const bool stated = config.contains(name) && !config[name].is_null();
    if (stated ? config[name] == value : value == true) continue;
    config[name] = value;
    changed = true;
  }
  return changed ? config.dump(2) + "\n" : text;
}

std::string config_with_ids(const std::string& text, const std::string& generation,
                            const std::string& where) {
  if (generation.empty()) return text;
  checkpoint::Json config = parse_object(text, str(where, "config.json'"));
  const checkpoint::Json stated = parse_object(generation, str(where, "generation_config.json'"));
  return take_ids(stated, config) ? config.dump(2) + "\n" : text;
}

std::string generation_config(const std::string& text, const std::string& existing) {
  const checkpoint::Json config = parse_config(text);
  if (existing.empty()) {
    if (!config.contains("eos_token_id")) return "";  // the model cannot generate
    checkpoint::Json made{{"_from_model_config", true}};
    take_ids(config, made);
    constexpr const char* kStart = "decoder_start_token_id";
    if (config.contains(kStart)) made[kStart] = config[kStart];
    return made.dump(2) + "\n";
  }
  checkpoint::Json generation = read_foreign_json(existing).value;
  const bool changed = generation.is_object() && take_ids(config, generation);
  return changed ? generation.dump(2) + "\n" : existing;
}

std::string tokenizer_config(const std::string& text, const std::string& tokenizer) {
  const checkpoint::Json config = parse_config(text);
  const checkpoint::Json json = read_foreign_json(tokenizer).value;
  if (!json.is_object()) return "";
  // Without a class transformers uses that of the model's family, and some of those override the file.
  checkpoint::Json made{{"tokenizer_class", "PreTrainedTokenizerFast"},
                        {"clean_up_tokenization_spaces", false}};
  for (const auto& [key, id_key] :
       {std::pair{"bos_token", "bos_token_id"}, std::pair{"eos_token", "eos_token_id"},
        std::pair{"pad_token", "pad_token_id"}}) {
    const std::vector<checkpoint::Json> ids = listed(config, id_key);
    const std::string name = ids.empty() ? "" : name_of(ids.front(), json);
    if (!name.empty()) made[key] = name;
  }
  if (const std::optional<bool> prefix = prefix_space(json)) made["add_prefix_space"] = *prefix;
  if (config.contains("max_position_embeddings"))
    made["model_max_length"] = config["max_position_embeddings"];
  if (config.contains("n_positions")) made["model_max_length"] = config["n_positions"];
  return made.dump(2) + "\n";
}

std::string tokenizer_config_with_end(const std::string& existing, const std::string& text,
                                      const std::string& tokenizer) {
  checkpoint::Json made = read_foreign_json(existing).value;
  const std::vector<checkpoint::Json> ends = listed(parse_config(text), "eos_token_id");
  if (!made.is_object() || ends.empty()) return existing;
  checkpoint::Json named = made.value("eos_token", checkpoint::Json());
  if (named.is_object()) named = named.value("content", checkpoint::Json());
  const checkpoint::Json listed_here = made.value("added_tokens_decoder", checkpoint::Json::object());
  const auto is_named = [&](const checkpoint::Json& id) {
    const auto token = listed_here.find(id.dump());
    return token != listed_here.end() && token->is_object() && token->contains("content") &&
           (*token)["content"] == named;
  };
  if (std::ranges::any_of(ends, is_named)) return existing;  // a large file need not be read
  const checkpoint::Json json = read_foreign_json(tokenizer).value;
  const std::string first = name_of(ends.front(), json);
  const auto is_end = [&](const checkpoint::Json& id) { return named == name_of(id, json); };
  if (first.empty() || std::ranges::any_of(ends, is_end)) return existing;
  made["eos_token"] = first;
  return made.dump(2) + "\n";
}

}  // namespace echelon::families
