#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/options/choice.h"
#include "text/template/chat_mask.h"

namespace echelon::data {

/// The treatment of a special token's text in a message: the conversation is refused, the text is encoded as
/// any other text, or it becomes the special token.
enum class TypedTokens : std::uint8_t { kRefuse, kEscape, kAllow };

}  // namespace echelon::data

namespace echelon {
template <>
inline constexpr std::array<std::string_view, 3> kWords<data::TypedTokens>{"refuse", "escape", "allow"};
template <>
inline constexpr std::array<std::string_view, 2> kWords<ChangedTurns>{"refuse", "last"};
}  // namespace echelon

namespace echelon::data {

/// The options of `echelon prepare --format chat`; docs/chats.md tells what each means to the user.
struct ChatOptions {
  std::string template_file;            ///< empty: that of the tokenizer's folder
  std::string messages = "messages";    ///< field of a conversation's list
  std::string tools = "tools";          ///< field of a list that goes to the template
  std::string system;                   ///< field with the text of a system message; empty: none
  std::string context;                  ///< field with a text that belongs behind a prompt; empty: none
  std::string role_key = "role";        ///< of a message
  std::string content_key = "content";  ///< of a message
  std::vector<std::string> roles;       ///< "NAME=ROLE": how the file calls a role
  std::vector<std::string> variables;   ///< "NAME=VALUE" for the template; a value is JSON or a text
  std::vector<std::string> ends;        ///< tokens that end a turn, beside those of the model
  std::string date;                     ///< YYYY-MM-DD, of strftime_now(); empty: refused
  ChangedTurns changed = ChangedTurns::kRefuse;
  TypedTokens typed = TypedTokens::kRefuse;
  double max_without_target = 0.05;  ///< share of the conversations
};

}  // namespace echelon::data
