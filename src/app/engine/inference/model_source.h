#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/engine/inference/chat.h"
#include "recipe/recipe.h"
#include "text/tokenizer.h"
#include "train/eval/inference_model.h"

namespace echelon::app {

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
