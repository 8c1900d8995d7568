#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/chat/chat_source.h"
#include "data/chat/conversation.h"
#include "text/template/chat_mask.h"
#include "text/tokenizer.h"

namespace echelon::data {

/// The tokens of a conversation.
struct EncodedChat {
  std::vector<std::int32_t> ids;
  std::vector<bool> trained;  ///< of each id
  std::uint64_t trained_tokens = 0;
  std::uint64_t torn_tokens = 0;   ///< trained ones with text in front of or behind what is trained
  std::uint64_t typed_tokens = 0;  ///< special ones in messages: escaped or allowed
  bool last_turn_only = false;
  TurnEnds ends;
  std::vector<std::int32_t> end_ids;  ///< that end what is trained together, the last one first
};

/// Renders conversations and finds the tokens that are trained. Every method may run on several threads.
class ChatEncoder {
 public:
  /// `tokenizer` must outlive it. Throws Error(kData): a template that is not understood.
  ChatEncoder(ChatSource source, const ChatOptions& options, const Tokenizer& tokenizer);

  /// `encoder` belongs to the tokenizer. Returns the ids of the whole text. A token is trained when any of
  /// its text is. Throws Error(kData) for a conversation that the template refuses, a text that does not map
  /// to tokens, and a special token in a message under TypedTokens::kRefuse. `first`: as of mask_chat().
  [[nodiscard]] EncodedChat encode(const Conversation& conversation, TextEncoder& encoder,
                                   std::size_t first = 0) const;

  /// The ids of a conversation up to where the assistant answers. Throws as encode() does, but for a text
  /// that does not map to tokens.
  [[nodiscard]] std::vector<std::int32_t> encode_prompt(const Conversation& conversation,
                                                        TextEncoder& encoder) const;

  /// The token with which the model learns to end a turn: the last of source().ends that is trained in a
  /// conversation of a question and an answer. -1: there is none, or the template refuses the conversation.
  [[nodiscard]] std::int32_t turn_end() const;

  [[nodiscard]] const ChatSource& source() const { return source_; }
  [[nodiscard]] bool marks_generation() const { return template_.marks_generation(); }

 private:
  struct Placed;
  [[nodiscard]] nlohmann::ordered_json variables_for(const Conversation& conversation) const;
  /// `typed_count`: set to how many special tokens stand in messages.
  [[nodiscard]] Placed place_checked(const RenderedChat& chat, const Conversation& conversation,
                                     TextEncoder& encoder, std::uint64_t& typed_count) const;
  [[nodiscard]] Placed place(const std::string& text, std::span<const TextSpan> typed,
                             TextEncoder& encoder) const;
  /// The special tokens that hold text of `typed`.
  [[nodiscard]] std::vector<std::int32_t> typed_tokens(const std::string& text,
                                                       std::span<const TextSpan> typed,
                                                       const Placed& placed) const;
  [[noreturn]] void refuse(std::int32_t typed_token) const;

  ChatSource source_;
  ChatTemplate template_;
  ChangedTurns changed_;
  TypedTokens typed_;
  const Tokenizer& tokenizer_;
  std::vector<bool> special_;  // of each id
  std::vector<bool> ends_;     // of each id: is it one of source_.ends?
};

}  // namespace echelon::data
