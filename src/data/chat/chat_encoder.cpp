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

/// The text of messages and of tools, without the roles: templates write these into special tokens.
std::vector<TextSpan> typed_in(const RenderedChat& chat, const nlohmann::ordered_json& messages) {
  std::vector<TextSpan> typed;
  std::size_t begin = 0;
  for (const ChatRun& run : chat.runs) {
    const auto text = std::string_view(chat.text).substr(begin, run.end - begin);
    if (!text.empty() && is_data(run, text, messages)) typed.push_back({begin, run.end});
    begin = run.end;
  }
  return typed;
}

void mark_trained(const std::vector<TextSpan>& spans, const std::vector<std::size_t>& ends,
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

/// Refuses an answer that its record leaves out of training (`weight` of OpenAI, `train` and `training` of
/// axolotl): without tags each one is trained.
void require_trained(const nlohmann::ordered_json& messages, std::size_t first) {
  for (std::size_t i = first; i < messages.size(); ++i) {
    if (messages[i].at("role") != kAssistant) continue;
    for (const char* key : {"weight", "train", "training"}) {
      const auto field = messages[i].find(key);
      if (field == messages[i].end() || !(*field == false || (field->is_number() && *field != 1))) continue;
      throw Error(
          Code::kData, "messages[", i, "] has '", key, "' ", field->dump(),
          ", but without generation tags in the template each answer is trained alike: name a template "
          "that has tags around what is to be trained by --chat-template FILE, or remove the key");
    }
  }
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

ChatEncoder::Placed ChatEncoder::place(const std::string& text, std::span<const TextSpan> typed,
                                       TextEncoder& encoder) const {
  Placed placed;
  encoder.encode_typed(text, typed, placed.ids);
  placed.ends = token_ends(tokenizer_, text, placed.ids);
  return placed;
}

std::vector<std::int32_t> ChatEncoder::typed_tokens(const std::string& text, std::span<const TextSpan> typed,
                                                    const Placed& placed) const {
  std::vector<std::int32_t> found;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < placed.ids.size(); begin = placed.ends[i++]) {
    if (!special_[static_cast<std::size_t>(placed.ids[i])]) continue;
    // White space that a token takes with it is not a part of its name.
    const std::string name = tokenizer_.piece_of(placed.ids[i]);
    const std::size_t at = text.find(name, begin);
    const auto span = std::ranges::partition_point(typed, [&](const TextSpan& s) { return s.end <= at; });
    if (span != typed.end() && span->begin < at + name.size()) found.push_back(placed.ids[i]);
  }
  return found;
}

void ChatEncoder::refuse(std::int32_t typed_token) const {
  throw Error(Code::kData, "a message holds the special token ", printable(tokenizer_.piece_of(typed_token)),
              ", which would end or begin a turn; choose with --special-in-text escape|allow "
              "what becomes of it");
}

ChatEncoder::Placed ChatEncoder::place_checked(const RenderedChat& chat, const Conversation& conversation,
                                               TextEncoder& encoder, std::uint64_t& typed_count) const {
  const std::vector<TextSpan> typed = typed_in(chat, conversation.messages);
  Placed placed = place(chat.text, {}, encoder);
  std::vector<std::int32_t> found = typed_tokens(chat.text, typed, placed);
  typed_count = found.size();
  if (found.empty() || typed_ == TypedTokens::kAllow) return placed;
  if (typed_ == TypedTokens::kEscape) return place(chat.text, typed, encoder);
  refuse(found.front());
}

nlohmann::ordered_json ChatEncoder::variables_for(const Conversation& conversation) const {
  nlohmann::ordered_json all = source_.variables;
  all.update(conversation.variables);
  return all;
}

EncodedChat ChatEncoder::encode(const Conversation& conversation, TextEncoder& encoder,
                                std::size_t first) const {
  if (source_.has_tool_template && !conversation.tools.is_null()) {
    throw Error(Code::kData,
                "it has tools, for which the tokenizer's folder has another template, 'tool_use': write that "
                "to a file and name it with --chat-template FILE");
  }
  if (!template_.marks_generation()) require_trained(conversation.messages, first);
  const nlohmann::ordered_json variables = variables_for(conversation);
  const MaskedChat masked = mask_chat(
      template_, {conversation.messages, conversation.tools, variables, false, source_.now}, changed_, first);
  EncodedChat made;
  Placed placed = place_checked(masked.chat, conversation, encoder, made.typed_tokens);
  made.trained.resize(placed.ids.size());
  mark_trained(masked.trained, placed.ends, made);
  made.ids = std::move(placed.ids);
  made.last_turn_only = !template_.marks_generation() && masked.trained.size() < masked.turns;
  made.ends = turn_ends_of(masked, source_.ends);
  made.end_ids = end_ids_in(made, ends_);
  return made;
}

std::vector<std::int32_t> ChatEncoder::encode_prompt(const Conversation& conversation,
                                                     TextEncoder& encoder) const {
  const nlohmann::ordered_json variables = variables_for(conversation);
  const RenderedChat chat =
      template_.render({conversation.messages, conversation.tools, variables, true, source_.now});
  std::vector<std::int32_t> ids;
  if (typed_ != TypedTokens::kEscape) encoder.encode(chat.text, ids);
  if (typed_ == TypedTokens::kAllow) return ids;
  std::vector<std::int32_t> escaped;
  encoder.encode_typed(chat.text, typed_in(chat, conversation.messages), escaped);
  if (typed_ == TypedTokens::kEscape || escaped == ids) return escaped;
  refuse(*std::find_if(std::ranges::mismatch(ids, escaped).in1, ids.end(),
                       [&](std::int32_t id) { return special_[static_cast<std::size_t>(id)]; }));
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
