#include "data/chat/chat_source.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/files/fs.h"
#include "base/foreign_json.h"
#include "base/str.h"

namespace echelon::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;

// Ends of a turn in published templates.
constexpr std::array<std::string_view, 10> kUsualEnds{
    "</s>",  "<|im_end|>",    "<|eot_id|>",      "<|eom_id|>",    "<|end|>",
    "<eos>", "<end_of_turn>", "<|end_of_text|>", "<|endoftext|>", "<|END_OF_TURN_TOKEN|>"};

/// The template of a tokenizer_config.json, which may hold several by name; empty: none.
std::string template_of(const nlohmann::json& config, const std::string& what, bool& has_tool_template) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return "";
  if (found->is_string()) return *found;
  std::string text;
  for (const nlohmann::json& one : found->is_array() ? *found : nlohmann::json::array()) {
    if (!one.is_object() || !one.contains("template") || !one["template"].is_string()) continue;
    const nlohmann::json name = one.value("name", nlohmann::json());
    if (name == "default") text = one["template"];
    has_tool_template = has_tool_template || name == "tool_use";
  }
  if (!text.empty()) return text;
  throw Error(Code::kData, what,
              ": chat_template is neither a text nor a list with one called 'default'; name "
              "a template with --chat-template FILE");
}

void find_template(const ChatOptions& options, const TokenizerFolder& folder, const nlohmann::json& config,
                   ChatSource& source) {
  if (!options.template_file.empty()) {
    source.origin = options.template_file;
    source.text = in_context("--chat-template",
                             [&] { return fs::read_file(options.template_file, kMostBytes, Code::kData); });
  } else if (std::string text = folder.text(kChatTemplate); !text.empty()) {
    source.origin = (folder.path() / kChatTemplate).string();
    source.text = std::move(text);
    source.has_tool_template = !folder.text("additional_chat_templates/tool_use.jinja").empty();
  } else {
    source.origin = (folder.path() / kTokenizerConfig).string();
    source.text = template_of(config, source.origin, source.has_tool_template);
  }
  if (source.text.empty()) {
    throw Error(Code::kData, "'", folder.path().string(), "' holds no chat template (", kChatTemplate,
                ", or ", kTokenizerConfig, " with chat_template): name one with --chat-template FILE");
  }
}

/// Adds the special tokens that transformers passes to a template.
void add_special_tokens(const nlohmann::json& config, const Tokenizer& tokenizer, Json& variables) {
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    if (!config.contains(name)) continue;
    if (std::string text = added_token_text(config[name]); !text.empty()) variables[name] = std::move(text);
  }
  const auto otherwise = [&](const char* name, std::int32_t id) {
    if (!config.contains(name) && id >= 0) variables[name] = tokenizer.name_of(id);
  };
  otherwise("bos_token", tokenizer.bos_id());
  otherwise("eos_token", tokenizer.eos_id());
  if (const auto more = config.find("additional_special_tokens"); more != config.end() && more->is_array()) {
    Json texts = Json::array();
    for (const nlohmann::json& token : *more) texts.push_back(added_token_text(token));
    if (!texts.empty()) variables["additional_special_tokens"] = std::move(texts);
  }
  // Tokens with names of the model's own, such as image_token.
  const auto add = [&](const std::string& name, const nlohmann::json& token) {
    if (std::string text = added_token_text(token); !text.empty() && !variables.contains(name))
      variables[name] = std::move(text);
  };
  for (const char* more : {"model_specific_special_tokens", "extra_special_tokens"}) {
    const nlohmann::json tokens = config.value(more, nlohmann::json());
    for (const auto& [name, token] : tokens.items()) {
      if (tokens.is_object()) add(name, token);
    }
  }
  for (const auto& [name, token] : config.items()) {
    if (name.ends_with("_token")) add(name, token);
  }
}

void add_variables(const ChatOptions& options, Json& variables) {
  for (const std::string& pair : options.variables) {
    const auto sign = pair.find('=');
    if (sign == std::string::npos || sign == 0)
      throw Error(Code::kUsage, "--template-variable is '", printable(pair),
                  "', expected NAME=VALUE, such as enable_thinking=false");
    const std::string value = pair.substr(sign + 1);
    const ForeignJson read = read_foreign_json(value);
    variables[pair.substr(0, sign)] =
        read.problem.empty() ? parse_ordered_json(value, "--template-variable", Code::kUsage) : Json(value);
  }
}

/// Noon, so that no time zone makes it another day.
std::optional<std::time_t> time_of(const std::string& date) {
  if (date.empty()) return {};
  std::tm day{};
  const char* end = ::strptime(date.c_str(), "%Y-%m-%d", &day);
  const std::tm given = day;
  day.tm_hour = 12;
  day.tm_isdst = -1;
  const std::time_t time = end != nullptr && *end == '\0' ? std::mktime(&day) : -1;
  if (time == -1 || day.tm_mday != given.tm_mday)
    throw Error(Code::kUsage, "--date is '", printable(date), "', expected a day as YYYY-MM-DD");
  return time;
}

std::vector<std::string> ends_of(const ChatOptions& options, const TokenizerFolder& folder,
                                 const Json& variables, const Tokenizer& tokenizer) {
  std::vector<std::string> ends = options.ends;
  const SpecialIds ids = folder.special_ids();
  for (const std::int32_t id : ids.ends) ends.push_back(tokenizer.name_of(id));
  ends.push_back(variables.value("eos_token", std::string()));
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string name = tokenizer.name_of(id);
    if (std::ranges::find(kUsualEnds, name) != kUsualEnds.end()) ends.push_back(name);
  }
  std::ranges::sort(ends);
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::erase(ends, "");
  return ends;
}

}  // namespace

nlohmann::ordered_json ChatSource::identity(const ChatOptions& options) const {
  Json all{{"template", fs::Path(origin).filename().string()},
           {"template_crc32c", crc32c(text)},
           {"variables", variables},
           {"date", options.date},
           {"ends", ends},
           {"messages", options.messages},
           {"tools", options.tools},
           {"role_key", options.role_key},
           {"content_key", options.content_key},
           {"roles", options.roles},
           {"changed_turns", word_of(options.changed)},
           {"special_in_text", word_of(options.typed)},
           {"max_without_target", options.max_without_target}};
  // Later additions: output of earlier versions stays what it is.
  if (!options.system.empty()) all["system"] = options.system;
  if (!options.context.empty()) all["context"] = options.context;
  return all;
}

ChatSource load_chat_source(const ChatOptions& options, const TokenizerFolder& folder,
                            const Tokenizer& tokenizer) {
  nlohmann::json config = folder.config();
  ChatSource source;
  find_template(options, folder, config, source);
  add_special_tokens(config, tokenizer, source.variables);
  add_variables(options, source.variables);
  if (!config.empty()) {
    config.erase("chat_template");
    source.tokenizer_config = config.dump(2) + "\n";
  }
  source.now = time_of(options.date);
  source.ends = ends_of(options, folder, source.variables, tokenizer);
  return source;
}

void require_known_ends(const ChatOptions& options, const ChatSource& source, const Tokenizer& tokenizer,
                        const std::string& file) {
  std::set<std::string> known;
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) known.insert(tokenizer.name_of(id));
  known.erase("");
  for (const std::string& end : options.ends) {
    if (!known.contains(end))
      throw Error(Code::kUsage, "--end-of-turn is '", printable(end), "', which is no token of '", file,
                  "': name a token as that file spells it");
  }
  const std::string eos = source.variables.value("eos_token", std::string());
  if (eos.empty() || known.contains(eos)) return;
  throw Error(Code::kData, "the template's eos_token is '", printable(eos), "', which is no token of '", file,
              "', so it would not be trained: save the tokenizer again with transformers' save_pretrained, "
              "which adds the tokens of added_tokens_decoder in ",
              kTokenizerConfig);
}

}  // namespace echelon::data
