#include "text/tokenizer_folder.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/foreign_json.h"
#include "base/str.h"
#include "text/json_field.h"
#include "text/tokenizer_digest.h"

namespace echelon {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;

// Members of tokenizer_config.json whose tokens transformers adds to those of tokenizer.json: 4 writes the
// first two, 5 the others.
constexpr std::array kLists{"added_tokens_decoder", "additional_special_tokens", "extra_special_tokens",
                            "model_specific_special_tokens"};

// Tokenizer classes of transformers 4 that go by add_bos_token. All others, and version 5, go by the
// post-processor.
constexpr std::array<std::string_view, 5> kFlaggedClasses{
    "LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer", "CohereTokenizer", "GPTNeoXTokenizer"};

constexpr const char* kPrefix = "add_prefix_space";

/// `who`: encodes text otherwise.
[[noreturn]] void refuse(const std::filesystem::path& folder, const std::string& what, const char* who) {
  throw Error(Code::kData, '\'', (folder / kTokenizerConfig).string(), "': ", what, ", so ", who,
              " encodes text in another way: load the folder with ", who,
              " and write it with save_pretrained, which makes both alike");
}

bool flag_of(const nlohmann::json& token, const char* name) {
  return token.is_object() && token.value(name, nlohmann::json()) == nlohmann::json(true);
}

/// How `token`, an added one of tokenizer_config.json, finds other text than tokenizer.json's; empty: not.
std::string difference(const nlohmann::json& token, const std::map<std::string, nlohmann::json>& known) {
  const auto ours = known.find(added_token_text(token));
  if (ours == known.end()) return "is not in";
  if (token.is_string()) return "";  // which states no flags
  for (const char* name : {"lstrip", "rstrip", "single_word"}) {
    if (flag_of(token, name) != flag_of(ours->second, name)) return str("has another ", name, " than in");
  }
  return "";
}

}  // namespace

std::string added_token_text(const nlohmann::json& token) {
  const nlohmann::json& text = token.is_object() && token.contains("content") ? token["content"] : token;
  return text.is_string() ? text.get<std::string>() : "";
}

TokenizerFolder::TokenizerFolder(const std::filesystem::path& tokenizer_file)
    : path_(tokenizer_file.has_parent_path() ? tokenizer_file.parent_path() : std::filesystem::path(".")),
      file_([folder = path_](const std::string& name) {
        std::error_code ignored;
        return std::filesystem::exists(folder / name, ignored)
                   ? fs::read_file(folder / name, kMostBytes, Code::kData)
                   : std::string();
      }) {}

std::string TokenizerFolder::name_in_messages(const char* file) const {
  return str('\'', path_.string(), "/", file, '\'');
}

/// The object that a file holds; an empty one if there is no file.
nlohmann::json TokenizerFolder::object_in(const char* file) const {
  const std::string text = file_(file);
  if (text.empty()) return nlohmann::json::object();
  nlohmann::json json = parse_foreign_json(text, name_in_messages(file), Code::kData);
  if (!json.is_object()) data::JsonField(json, name_in_messages(file)).refuse("an object");
  return json;
}

nlohmann::json TokenizerFolder::config() const {
  nlohmann::json config = object_in(kTokenizerConfig);
  if (config.contains("added_tokens_decoder")) return config;
  const nlohmann::json map = object_in("special_tokens_map.json");
  for (const auto& [name, token] : map.items()) config[name] = token;
  return config;
}

void TokenizerFolder::require_same_tokens(std::string_view tokenizer) const {
  if (tokenizer_file_name(tokenizer) != "tokenizer.json") return;
  const nlohmann::json config = this->config();
  const auto has = [&](const char* name) { return config.contains(name); };
  if (std::ranges::none_of(kLists, has) && !has(kPrefix)) return;
  const nlohmann::json json = parse_foreign_json(tokenizer, "tokenizer.json", Code::kData);
  std::map<std::string, nlohmann::json> known;
  for (const nlohmann::json& token : json.value("added_tokens", nlohmann::json::array()))
    known.emplace(added_token_text(token), token);
  for (const char* list : kLists) {
    for (const nlohmann::json& token : config.value(list, nlohmann::json())) {
      const std::string problem = difference(token, known);
      if (!problem.empty())
        refuse(path_,
               str("the token '", printable(added_token_text(token)), "' of ", list, ' ', problem,
                   " tokenizer.json beside it"),
               "transformers");
    }
  }
  const nlohmann::json step = json.value("pre_tokenizer", nlohmann::json());
  const nlohmann::json prefix = config.value(kPrefix, nlohmann::json());
  if (prefix.is_boolean() && step.is_object() && step.value("type", nlohmann::json()) == "ByteLevel" &&
      step.value(kPrefix, prefix) != prefix)
    refuse(path_, str(kPrefix, " is ", prefix.dump(), ", unlike in tokenizer.json beside it"),
           "transformers 4");
}

void TokenizerFolder::require_same_begin(const Tokenizer& tokenizer) const {
  const nlohmann::json config = this->config();
  std::string kind = added_token_text(config.value("tokenizer_class", nlohmann::json()));
  if (kind.ends_with("Fast")) kind.resize(kind.size() - 4);
  if (std::ranges::find(kFlaggedClasses, kind) == kFlaggedClasses.end()) return;
  const nlohmann::json flag = config.value("add_bos_token", nlohmann::json());
  const std::int32_t bos = tokenizer.bos_id();
  if (!flag.is_boolean() || flag == (bos >= 0)) return;
  const std::string begin = bos < 0 ? "no token" : str('\'', printable(tokenizer.name_of(bos)), '\'');
  refuse(path_,
         str("add_bos_token is ", flag.dump(), ", but the tokenizer beside it begins a text with ", begin),
         "transformers 4");
}

SpecialIds TokenizerFolder::special_ids() const {
  SpecialIds ids;
  for (const char* name : {"generation_config.json", "config.json"}) {
    if (!ids.ends.empty()) break;
    if (const std::string text = file_(name); !text.empty())
      ids.ends = end_ids_of(text, name_in_messages(name));
  }
  const nlohmann::json config = this->config();
  if (const auto end = data::JsonField(config, name_in_messages(kTokenizerConfig)).find("eos_token"))
    ids.end_token = end->json().is_object() ? end->at("content").text() : end->text();
  return ids;
}

}  // namespace echelon
