#include "app/engine/inference/chat.h"

#include <ctime>
#include <utility>

namespace echelon::app {
namespace {

/// What a user types is text.
data::ChatOptions as_text(data::ChatOptions options) {
  options.typed = data::TypedTokens::kEscape;
  return options;
}

/// Where no date is given, a template that writes one writes that of today.
data::ChatSource source_of(const data::ChatOptions& options, const TokenizerFolder& folder,
                           const Tokenizer& tokenizer) {
  data::ChatSource source = load_chat_source(options, folder, tokenizer);
  if (!source.now) source.now = std::time(nullptr);
  return source;
}

nlohmann::ordered_json message(std::string_view role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

}  // namespace

Chat::Chat(const ChatRequest& request, const TokenizerFolder& folder, const Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      encoder_(source_of(request.options, folder, tokenizer), as_text(request.options), tokenizer) {
  if (!request.system.empty()) messages_.push_back(message("system", request.system));
}

std::vector<std::int64_t> Chat::ids(const std::string& question) const {
  nlohmann::ordered_json messages = messages_;
  messages.push_back(message("user", question));
  const auto ids = encoder_.encode_prompt({std::move(messages), nullptr}, *tokenizer_.make_encoder());
  return {ids.begin(), ids.end()};
}

void Chat::remember(const std::string& question, const std::string& answer) {
  messages_.push_back(message("user", question));
  messages_.push_back(message(data::kAssistant, answer));
}

}  // namespace echelon::app
