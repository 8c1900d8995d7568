#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/engine/engine.h"
#include "data/chat/chat_encoder.h"
#include "recipe/recipe.h"
#include "text/tokenizer.h"
#include "text/tokenizer_folder.h"
#include "train/eval/inference_model.h"

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

/// The tokenizer of the model, ending texts as its config.json says, and all ids that end one.
struct Language {
  std::unique_ptr<const Tokenizer> tokenizer;
  std::vector<std::int64_t> ends;
  std::unique_ptr<Chat> chat;  ///< null: texts are continued as they are
};

/// A trained model: a checkpoint, or a Hugging Face folder.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  [[nodiscard]] virtual Recipe recipe() const = 0;
  /// Throws Error(kData): it holds no tokenizer, or `chat` asks for what its tokenizer does not have.
  [[nodiscard]] virtual Language language(const std::optional<ChatRequest>& chat) const = 0;
  /// Collective.
  [[nodiscard]] virtual std::unique_ptr<ShardedModel> load(std::unique_ptr<Model> model,
                                                           const InferencePlace& place) const = 0;
};

/// `named`: step folder, run folder for its newest checkpoint, or Hugging Face folder. `base`: folder of the
/// adapters' base, if it is not where the checkpoint says. As long as the source of a checkpoint lives, no
/// run removes the checkpoint. Collective.
[[nodiscard]] std::unique_ptr<ModelSource> open_source(const std::filesystem::path& named,
                                                       const std::string& base, Communicator& comm);

}  // namespace echelon::app
