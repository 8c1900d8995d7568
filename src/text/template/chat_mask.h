#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/chat_template.h"
#include "text/text_span.h"

namespace echelon {

/// A chat and its trained parts: the text that the model must write after a prompt, with the end of its turn.
struct MaskedChat {
  RenderedChat chat;
  std::vector<TextSpan> trained;  ///< in order, apart, none of them empty
  std::size_t turns = 0;          ///< of the assistant
};

/// The trained turns under a template that writes an earlier turn differently once a later one follows, for
/// example without its reasoning.
enum class ChangedTurns : unsigned char { kRefuse, kLastTurn };

/// The role whose turns are trained.
inline constexpr std::string_view kAssistant = "assistant";

/// Trains the text between generation tags if the template has them. Else trains the text that each turn of
/// kAssistant adds to the messages before it and the prompt for it. Throws Error(kData) as render() does, and
/// if a turn is not found in the text or a template with tags marks none. Without tags, turns below message
/// `first` are not trained, whatever becomes of them.
[[nodiscard]] MaskedChat mask_chat(const ChatTemplate& chat_template, const ChatInput& input,
                                   ChangedTurns changed, std::size_t first = 0);

/// Numbers of trained spans with a token behind their text that ends a turn, by whether it is trained.
struct TurnEnds {
  std::size_t trained = 0;
  std::size_t left_out = 0;  ///< the model would never learn to stop
};

/// `ends`: the tokens that end a turn (the tokenizer's EOS, those of generation_config.json). White space
/// before and behind them does not matter.
[[nodiscard]] TurnEnds turn_ends_of(const MaskedChat& masked, const std::vector<std::string>& ends);

}  // namespace echelon
