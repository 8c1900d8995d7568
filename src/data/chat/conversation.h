#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "data/chat/chat_options.h"

namespace echelon::data {

struct Conversation {
  nlohmann::ordered_json messages;  ///< objects with "role" and "content"
  nlohmann::ordered_json tools;     ///< a list, or null
};

/// Names of the fields of a prompt and its response; empty: a line holds messages.
struct PromptFields {
  std::string prompt;
  std::string response;
};

inline constexpr std::string_view kAssistant = "assistant";

/// Reads a line of a JSONL file, and replaces its names and roles by those of templates. Throws Error(kData)
/// if the line is no conversation: "messages[2] has no 'role'".
[[nodiscard]] Conversation read_conversation(std::string_view line, const ChatOptions& options,
                                             const PromptFields& fields);

/// Checks options.roles. Throws Error(kUsage).
void check_roles(const ChatOptions& options);

}  // namespace echelon::data
