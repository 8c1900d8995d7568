#pragma once
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/chat/chat_options.h"
#include "text/tokenizer.h"
#include "text/tokenizer_folder.h"

namespace echelon::data {

/// The source of rendered chats: a template and its values besides the messages.
struct ChatSource {
  std::string text;              ///< of the template
  std::string origin;            ///< the template's file, for messages
  std::string tokenizer_config;  ///< the folder's tokenizer_config.json, without a template; empty: none
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  ///< bos_token..., options.variables
  std::optional<std::time_t> now;
  std::vector<std::string> ends;   ///< special tokens that end a turn
  bool has_tool_template = false;  ///< the folder has another template, for conversations with tools

  /// Returns everything that the text depends on, for prepare.json.
  [[nodiscard]] nlohmann::ordered_json identity(const ChatOptions& options) const;
};

/// The template named in the options, else chat_template.jinja or that of tokenizer_config.json in `folder`;
/// of several, the one called "default". Ends are options.ends, what the model in that
/// folder ends text with, and the usual names where the tokenizer has them as special tokens. Throws
/// Error(kData) where there is none or a file is not understood, Error(kUsage) for options that are.
[[nodiscard]] ChatSource load_chat_source(const ChatOptions& options, const TokenizerFolder& folder,
                                          const Tokenizer& tokenizer);

/// Throws Error(kUsage) for one of options.ends, Error(kData) for an eos_token of the template that is no
/// token of `tokenizer`: no model would learn it. `file`: the tokenizer's, for messages.
void require_known_ends(const ChatOptions& options, const ChatSource& source, const Tokenizer& tokenizer,
                        const std::string& file);

}  // namespace echelon::data
