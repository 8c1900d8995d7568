#include "data/chat/chat_encoder.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "text/token_ends.h"

namespace echelon::data {

/// Tokens and where each ends in the text.
struct ChatEncoder::Placed {
  std::vector<std::int32_t> ids;
  std::vector<std::size_t> ends;
};

namespace {

/// Returns whether `text` of `run` is that of a message or of tools, and no role.
bool is_data(const ChatRun& run, std::string_view text, const nlohmann::ordered_json& messages) {
  if (run.message < 0) return run.message != -1;
  return messages[static_cast<std::size_t>(run.message)].at("role") != text;
}

/// Returns whether bytes [begin, end) hold text of a message or of tools, without its role: templates write
/// it into special tokens.
bool holds_data(const RenderedChat& chat, const nlohmann::ordered_json& messages, std::size_t begin,
                std::size_t end) {
  std::size_t run_begin = 0;
  for (const ChatRun& run : chat.runs) {
    const auto text = std::string_view(chat.text).substr(run_begin, run.end - run_begin);
    if (run.end > begin && run_begin < end && is_data(run, text, messages)) return true;
    run_begin = run.end;
  }
  return false;
}

std::string without_data(const RenderedChat& chat, const nlohmann::ordered_json& messages) {
  std::string kept;
  std::size_t begin = 0;
  for (const ChatRun& run : chat.runs) {
    const auto text = std::string_view(chat.text).substr(begin, run.end - begin);
    if (!is_data(run, text, messages)) kept += text;
    begin = run.end;
  }
  return kept;
}

/// Behind the first character of each span, where a cut leaves no special token.
std::vector<std::size_t> cuts_in(const std::string& text, const std::vector<ChatSpan>& spans) {
  std::vector<std::size_t> cuts;
  for (const ChatSpan& span : spans) {
    std::size_t cut = span.begin + 1;
    while (cut < span.end && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80) ++cut;
    cuts.push_back(cut);
  }
  return cuts;
}

void mark_trained(const std::vector<ChatSpan>& spans, const std::vector<std::size_t>& ends,
                  EncodedChat& made) {
  std::size_t begin = 0;
  auto span = spans.begin();
  for (std::size_t i = 0; i < ends.size(); begin = ends[i++]) {
    while (span != spans.end() && span->end <= begin) ++span;
    if (span == spans.end() || span->begin >= ends[i]) continue;
    made.trained[i] = true;
    ++made.trained_tokens;
    if (begin < span->begin || ends[i] > span->end) ++made.torn_tokens;
  }
}

/// Returns the last id that is one of `ends` in each part of `chat` that is trained together.
std::vector<std::int32_t> end_ids_in(const EncodedChat& chat, const std::vector<bool>& ends) {
  std::vector<std::int32_t> found;
  bool sought = true;
  for (std::size_t i = chat.ids.size(); i-- > 0;) {
    if (!chat.trained[i]) {
      sought = true;
    } else if (sought && ends[static_cast<std::size_t>(chat.ids[i])]) {
      found.push_back(chat.ids[i]);
      sought = false;
    }
  }
  return found;
}

}  // namespace

ChatEncoder::ChatEncoder(ChatSource source, const ChatOptions& options, const Tokenizer& tokenizer)
    : source_(std::move(source)),
      template_(source_.text, source_.origin),
      changed_(options.changed),
      typed_(options.typed),
      tokenizer_(tokenizer) {
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    special_.push_back(tokenizer.is_special(id));
    ends_.push_back(std::ranges::find(source_.ends, tokenizer.name_of(id)) != source_.ends.end());
  }
}

/// Encodes the parts between `cuts` apart.
ChatEncoder::Placed ChatEncoder::place(const std::string& text, const std::vector<std::size_t>& cuts,
                                       TextEncoder& encoder) const {
  Placed placed;
  std::size_t begin = 0;
  for (const std::size_t cut : cuts) {
    encoder.encode(std::string_view(text).substr(begin, cut - begin), placed.ids);
    begin = cut;
  }
  encoder.encode(std::string_view(text).substr(begin), placed.ids);
  placed.ends = token_ends(tokenizer_, text, placed.ids);
  return placed;
}

std::vector<ChatSpan> ChatEncoder::typed_tokens(const RenderedChat& chat, const Conversation& conversation,
                                                const Placed& placed) const {
  std::vector<ChatSpan> typed;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < placed.ids.size(); begin = placed.ends[i++]) {
    if (!special_[static_cast<std::size_t>(placed.ids[i])]) continue;
    // White space that a token takes with it is not a part of its name.
    const std::string name = tokenizer_.piece_of(placed.ids[i]);
    const std::size_t at = chat.text.find(name, begin);
    if (holds_data(chat, conversation.messages, at, at + name.size()))
      typed.push_back({at, at + name.size()});
  }
  return typed;
}

ChatEncoder::Placed ChatEncoder::place_checked(const RenderedChat& chat, const Conversation& conversation,
                                               TextEncoder& encoder, std::uint64_t& typed_count) const {
  const std::string& text = chat.text;
  Placed placed = place(text, {}, encoder);
  const auto typed = typed_tokens(chat, conversation, placed);
  typed_count = typed.size();
  if (typed.empty() || typed_ == TypedTokens::kAllow) return placed;
  if (typed_ == TypedTokens::kEscape) {
    placed = place(text, cuts_in(text, typed), encoder);
    if (typed_tokens(chat, conversation, placed).empty()) return placed;
  }
  const std::string name = text.substr(typed[0].begin, typed[0].end - typed[0].begin);
  throw Error(Code::kData, "a message holds the special token ", printable(name),
              ", which would end or begin a turn; choose with --special-in-text escape|allow "
              "what becomes of it");
}

EncodedChat ChatEncoder::encode(const Conversation& conversation, TextEncoder& encoder,
                                std::size_t first) const {
  if (source_.has_tool_template && !conversation.tools.is_null()) {
    throw Error(Code::kData,
                "it has tools, for which the tokenizer's folder has another template, 'tool_use': write that "
                "to a file and name it with --chat-template FILE");
  }
  const MaskedChat masked =
      mask_chat(template_, {conversation.messages, conversation.tools, source_.variables, false, source_.now},
                std::string(kAssistant), changed_, first);
  EncodedChat made;
  Placed placed = place_checked(masked.chat, conversation, encoder, made.typed_tokens);
  made.trained.resize(placed.ids.size());
  mark_trained(masked.trained, placed.ends, made);
  made.ids = std::move(placed.ids);
  made.last_turn_only = !template_.marks_generation() && masked.trained_turns < masked.turns;
  made.ends = turn_ends_of(masked, source_.ends);
  made.end_ids = end_ids_in(made, ends_);
  return made;
}

std::vector<std::int32_t> ChatEncoder::encode_prompt(const Conversation& conversation,
                                                     TextEncoder& encoder) const {
  const RenderedChat chat =
      template_.render({conversation.messages, conversation.tools, source_.variables, true, source_.now});
  const auto encoded = [&](const std::string& text) {
    std::vector<std::int32_t> ids;
    encoder.encode(text, ids);
    return ids;
  };
  const auto special_in = [&](std::vector<std::int32_t> ids) {
    std::erase_if(ids, [&](std::int32_t id) { return !special_[static_cast<std::size_t>(id)]; });
    return ids;
  };
  // If messages add no special token, nothing is cut, and the tokenizer may change the text.
  std::vector<std::int32_t> ids = encoded(chat.text);
  if (special_in(ids) == special_in(encoded(without_data(chat, conversation.messages)))) return ids;
  std::uint64_t typed_count = 0;
  return place_checked(chat, conversation, encoder, typed_count).ids;
}

std::int32_t ChatEncoder::turn_end() const {
  const nlohmann::ordered_json messages = {{{"role", "user"}, {"content", "a"}},
                                           {{"role", kAssistant}, {"content", "b"}}};
  try {
    const EncodedChat chat = encode({messages, nullptr}, *tokenizer_.make_encoder());
    return chat.end_ids.empty() ? -1 : chat.end_ids.front();
  } catch (const Error&) {
    return -1;
  }
}

}  // namespace echelon::data
