#include "text/template/chat_mask.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"

namespace echelon {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::size_t> turns_of(const Json& messages, std::size_t first) {
  std::vector<std::size_t> turns;
  for (std::size_t i = first; i < messages.size(); ++i) {
    if (messages[i].is_object() && messages[i].value("role", Json()) == Json(kAssistant)) turns.push_back(i);
  }
  return turns;
}

std::vector<TextSpan> generated_spans(const RenderedChat& chat) {
  std::vector<TextSpan> spans;
  std::size_t begin = 0;
  for (const ChatRun& run : chat.runs) {
    if (run.generated && !spans.empty() && spans.back().end == begin) {
      spans.back().end = run.end;
    } else if (run.generated) {
      spans.push_back({begin, run.end});
    }
    begin = run.end;
  }
  return spans;
}

/// The text of the first `count` messages.
std::string text_until(const ChatTemplate& chat_template, const ChatInput& input, std::size_t count,
                       bool prompt) {
  const Json messages(input.messages.begin(), input.messages.begin() + static_cast<std::ptrdiff_t>(count));
  return chat_template.render({messages, input.tools, input.variables, prompt, input.now}).text;
}

/// The text up to a turn that others follow. A template may close each text, not each turn, with EOS (Phi-3).
std::string text_with(const ChatTemplate& chat_template, const ChatInput& input, std::size_t turn,
                      std::string_view whole) {
  std::string text = text_until(chat_template, input, turn + 1, false);
  const std::string eos = input.variables.value("eos_token", std::string());
  if (!whole.starts_with(text) && text.ends_with(eos)) text.resize(text.size() - eos.size());
  return text;
}

}  // namespace

MaskedChat mask_chat(const ChatTemplate& chat_template, const ChatInput& input, ChangedTurns changed,
                     std::size_t first) {
  MaskedChat masked;
  masked.chat = chat_template.render(input);
  const std::vector<std::size_t> turns = turns_of(input.messages, first);
  masked.turns = turns.size();
  if (chat_template.marks_generation()) {
    masked.trained = generated_spans(masked.chat);
    if (masked.trained.empty() && !turns.empty())
      throw Error(Code::kData,
                  "the template has generation tags, and nothing of this conversation is between them");
    return masked;
  }
  for (const std::size_t turn : turns) {
    const bool last = turn + 1 == input.messages.size();
    const std::string before = text_until(chat_template, input, turn, true);
    const std::string after =
        last ? masked.chat.text : text_with(chat_template, input, turn, masked.chat.text);
    if (masked.chat.text.starts_with(after) && after.starts_with(before) && before.size() < after.size()) {
      masked.trained.push_back({before.size(), after.size()});
    } else if (changed == ChangedTurns::kRefuse || turn == turns.back()) {
      throw Error(Code::kData, "messages[", turn,
                  "]: the text with this turn does not continue the text before it, so what is to be trained "
                  "is not known: ",
                  turn == turns.back() ? "" : "train the last turn alone with --changed-turns last, or ",
                  "name a template with generation tags by --chat-template FILE");
    }
  }
  if (changed == ChangedTurns::kLastTurn && masked.trained.size() < masked.turns)
    masked.trained = {masked.trained.back()};
  return masked;
}

TurnEnds turn_ends_of(const MaskedChat& masked, const std::vector<std::string>& ends) {
  constexpr std::string_view kBlank = " \t\r\n";
  TurnEnds found;
  const std::string_view text = masked.chat.text;
  for (const TextSpan span : masked.trained) {
    const std::string_view inside = text.substr(span.begin, span.end - span.begin);
    const std::string_view trimmed = inside.substr(0, inside.find_last_not_of(kBlank) + 1);
    std::string_view behind = text.substr(span.end);
    behind.remove_prefix(std::min(behind.find_first_not_of(kBlank), behind.size()));
    const auto any = [&](const auto& holds) { return std::ranges::any_of(ends, holds); };
    if (any([&](const std::string& end) { return trimmed.ends_with(end); })) {
      ++found.trained;
    } else if (any([&](const std::string& end) { return behind.starts_with(end); })) {
      ++found.left_out;
    }
  }
  return found;
}

}  // namespace echelon
