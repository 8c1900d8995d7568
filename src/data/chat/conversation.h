#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/chat_options.h"

namespace echelon::data {

struct Conversation {
  nlohmann::ordered_json messages;  ///< objects with "role" and "content"
  nlohmann::ordered_json tools;     ///< a list, or null
  /// Values for the template, of this conversation alone.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
};

/// The field of a line with Conversation::variables; its name is trl's.
inline constexpr const char* kVariables = "chat_template_kwargs";

/// Names of the fields of a prompt and its response; empty: a line holds messages.
struct PromptFields {
  std::string prompt;
  std::string response;
};

/// A field that often holds a text beside messages or prompts, and the option that takes it.
struct TextBeside {
  std::string field;
  const char* option;
};

/// The fields of options.system and options.context, with the usual ones in place of those not named.
[[nodiscard]] std::vector<TextBeside> texts_beside(const ChatOptions& options, const PromptFields& fields);

/// Reads a line of a JSONL file, and replaces its names and roles by those of templates. Throws Error(kData)
/// if the line is no conversation: "messages[2] has no 'content'".
[[nodiscard]] Conversation read_conversation(std::string_view line, const ChatOptions& options,
                                             const PromptFields& fields);

/// A prompt with two answers to it.
struct Preference {
  Conversation prompt;
  nlohmann::ordered_json chosen;  ///< messages behind the prompt, the first of the assistant
  nlohmann::ordered_json rejected;
};

/// Reads a line with "chosen" and "rejected", and "prompt" unless both begin with it: lists of messages, or
/// texts. Throws Error(kData): "'rejected' has no messages behind the prompt".
[[nodiscard]] Preference read_preference(std::string_view line, const ChatOptions& options);

/// Checks options.roles. Throws Error(kUsage).
void check_roles(const ChatOptions& options);

}  // namespace echelon::data
