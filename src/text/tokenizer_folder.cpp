#include "text/tokenizer_folder.h"

#include <map>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/foreign_json.h"
#include "base/str.h"
#include "text/tokenizer_digest.h"

namespace echelon {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;

std::string content_of(const nlohmann::json& token) {
  const auto content = token.is_object() ? token.find("content") : token.end();
  return content != token.end() && content->is_string() ? content->get<std::string>() : "";
}

bool flag_of(const nlohmann::json& token, const char* name) {
  return token.is_object() && token.value(name, nlohmann::json()) == nlohmann::json(true);
}

/// How `token`, an added one of tokenizer_config.json, finds other text than tokenizer.json's; empty: not.
std::string difference(const nlohmann::json& token, const std::map<std::string, nlohmann::json>& known) {
  const auto ours = known.find(content_of(token));
  if (ours == known.end()) return "is not in";
  for (const char* name : {"lstrip", "rstrip", "single_word"}) {
    if (flag_of(token, name) != flag_of(ours->second, name)) return str("has another ", name, " than in");
  }
  return "";
}

}  // namespace

TokenizerFolder::TokenizerFolder(const std::filesystem::path& tokenizer_file)
    : path_(tokenizer_file.has_parent_path() ? tokenizer_file.parent_path() : std::filesystem::path(".")),
      file_([folder = path_](const std::string& name) {
        std::error_code ignored;
        return std::filesystem::exists(folder / name, ignored)
                   ? fs::read_file(folder / name, kMostBytes, Code::kData)
                   : std::string();
      }) {}

void TokenizerFolder::require_same_tokens(std::string_view tokenizer) const {
  const std::string text = this->text(kTokenizerConfig);
  if (text.empty() || tokenizer_file_name(tokenizer) != "tokenizer.json") return;
  const std::string file = (path_ / kTokenizerConfig).string();
  const nlohmann::json config = parse_foreign_json(text, file, Code::kData);
  const auto added = config.is_object() ? config.find("added_tokens_decoder") : config.end();
  if (added == config.end() || !added->is_object() || added->empty()) return;
  std::map<std::string, nlohmann::json> known;
  const nlohmann::json json = parse_foreign_json(tokenizer, "tokenizer.json", Code::kData);
  for (const nlohmann::json& token : json.value("added_tokens", nlohmann::json::array()))
    known.emplace(content_of(token), token);
  for (const nlohmann::json& token : *added) {
    const std::string content = content_of(token);
    const std::string problem = difference(token, known);
    if (problem.empty()) continue;
    throw Error(Code::kData, '\'', file, "': the token '", printable(content), "' of added_tokens_decoder ",
                problem,
                " tokenizer.json beside it, so transformers encodes text in another way: load the folder "
                "with transformers and write it with save_pretrained, which makes both alike");
  }
}

SpecialIds TokenizerFolder::special_ids() const {
  return special_ids_of(file_, path_.string());
}

}  // namespace echelon
