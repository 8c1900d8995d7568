#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/engine/engine.h"
#include "data/chat/chat_encoder.h"
#include "text/tokenizer_folder.h"

namespace echelon::app {

/// A conversation of a user with a model, in the words of the model's chat template.
class Chat {
 public:
  /// The template is that of the request, or lies in `folder`. `tokenizer` must outlive it. Throws
  /// Error(kData): there is none, or it is not understood.
  Chat(const ChatRequest& request, const TokenizerFolder& folder, const Tokenizer& tokenizer);

  /// Returns the ids of the conversation so far and `question`, up to the assistant's answer. A special token
  /// in the user's text is encoded as any other text. Throws Error(kData) if the template refuses the
  /// conversation.
  [[nodiscard]] std::vector<std::int64_t> ids(const std::string& question) const;

  /// Both become part of the conversation.
  void remember(const std::string& question, const std::string& answer);

  /// The token that ends a turn in this template; -1: none is known.
  [[nodiscard]] std::int32_t end() const { return encoder_.turn_end(); }

 private:
  const Tokenizer& tokenizer_;
  data::ChatEncoder encoder_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
};

}  // namespace echelon::app
