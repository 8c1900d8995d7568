#include "app/engine/inference/model_source.h"

#include <ctime>
#include <utility>

#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/folder/run_folder.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/read/leased_reader.h"
#include "comm/agree.h"
#include "comm/exchange.h"
#include "families/model_weights.h"
#include "recipe/parse.h"
#include "text/special_ids.h"
#include "text/tokenizer_digest.h"

namespace echelon::app {
namespace {

/// What a user types is text.
data::ChatOptions as_text(data::ChatOptions options) {
  options.typed = data::TypedTokens::kEscape;
  return options;
}

/// Where no date is given, a template that writes one writes that of today.
data::ChatSource source_of(const data::ChatOptions& options, const TokenizerFolder& folder,
                           const Tokenizer& tokenizer) {
  data::ChatSource source = load_chat_source(options, folder, tokenizer);
  if (!source.now) source.now = std::time(nullptr);
  return source;
}

nlohmann::ordered_json message(std::string_view role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

/// Only a tokenizer.json finds the special tokens of a template in a text.
std::filesystem::path tokenizer_of(const std::filesystem::path& folder, bool chats) {
  const std::filesystem::path json = folder / "tokenizer.json";
  return chats && checkpoint::entry_exists(json) ? json : find_tokenizer(folder);
}

Language language_of(const std::filesystem::path& folder, const char* what,
                     const std::optional<ChatRequest>& chat, const FolderFile& text) {
  const std::filesystem::path file = tokenizer_of(folder, chat.has_value());
  if (file.empty()) {
    throw Error(Code::kData, what, " '", folder.string(),
                "' holds neither tokenizer.model nor tokenizer.json, so text cannot be "
                "turned into tokens; train from data with a tokenizer (data.tokenizer)");
  }
  const auto content = [&](const std::string& name) {
    // Imports may hold a generation_config.json that says less: config.json is what training kept up to date.
    return name == "generation_config.json" ? std::string() : text(name);
  };
  const TokenizerFolder beside(folder, content);
  const SpecialIds ids = beside.special_ids();
  const std::string bytes = text(file.filename());
  if (chat && tokenizer_file_name(bytes) != "tokenizer.json") {
    throw Error(Code::kData, "--chat: '", file.string(),
                "' is a sentencepiece model, which does not find the special tokens of a "
                "chat in its text: put the model's tokenizer.json beside it");
  }
  beside.require_same_tokens(bytes);
  auto tokenizer = Tokenizer::from_bytes(bytes, file.string());
  const std::int32_t end = document_end(ids, *tokenizer);
  Language language{ending_with(std::move(tokenizer), end), {ids.ends.begin(), ids.ends.end()}, nullptr};
  if (language.ends.empty()) language.ends = {end};
  if (chat) {
    language.chat = std::make_unique<Chat>(*chat, beside, *language.tokenizer);
    language.ends.push_back(language.chat->end());
  }
  return language;
}

/// Without weights too, so that opening it says which file it lacks.
bool is_hugging_face(const std::filesystem::path& folder) {
  if (families::is_model_folder(folder)) return true;
  return checkpoint::entry_exists(folder / "config.json") && !checkpoint::is_step_folder(folder) &&
         checkpoint::list(checkpoint::checkpoints_folder(folder)).empty();
}

/// The Hugging Face folder or step folder to read. Rank 0 chooses, since a run that is saving could make
/// ranks choose differently. Collective.
std::filesystem::path folder_of(const std::filesystem::path& named, Communicator& comm) {
  std::string found;
  agree(comm, "find checkpoint", [&] {
    if (comm.rank() != 0) return;
    found = is_hugging_face(named) ? named.string() : checkpoint::Reader(named).folder().string();
  });
  return broadcast_value(comm, found, "checkpoint");
}

/// Until it ends, no run removes the checkpoint.
class CheckpointSource final : public ModelSource {
 public:
  CheckpointSource(const std::filesystem::path& folder, std::string base, bool tells)
      : leased_(folder, tells), base_(std::move(base)) {}
  [[nodiscard]] Recipe recipe() const override {
    return recipe::parse_stored_recipe("recipe.yaml of the checkpoint",
                                       leased_.reader.attachment("recipe.yaml"));
  }
  [[nodiscard]] Language language(const std::optional<ChatRequest>& chat) const override {
    const checkpoint::Reader& reader = leased_.reader;
    return language_of(reader.folder(), "checkpoint", chat, [&](const std::string& name) {
      return reader.has_attachment(name) ? reader.attachment(name) : std::string();
    });
  }
  [[nodiscard]] std::unique_ptr<ShardedModel> load(std::unique_ptr<Model> model,
                                                   const InferencePlace& place) const override {
    return load_inference_model(leased_.reader, std::move(model), place, base_);
  }

 private:
  checkpoint::LeasedReader leased_;
  std::string base_;
};

class FolderSource final : public ModelSource {
 public:
  explicit FolderSource(const std::filesystem::path& folder) : weights_(folder, "cannot sample from") {}
  [[nodiscard]] Recipe recipe() const override {
    return recipe::parse_stored_recipe("config.json", weights_.model().whole_recipe());
  }
  [[nodiscard]] Language language(const std::optional<ChatRequest>& chat) const override {
    const auto text = [&](const std::string& name) {
      if (name == "config.json") return weights_.config();
      const std::filesystem::path file = weights_.folder() / name;
      return checkpoint::entry_exists(file) ? checkpoint::read_input(file, checkpoint::kMaxAttachmentBytes)
                                            : std::string();
    };
    Language language = language_of(weights_.folder(), "folder", chat, text);
    // A template writes how a conversation begins.
    if (!chat) TokenizerFolder(weights_.folder(), text).require_same_begin(*language.tokenizer);
    return language;
  }
  [[nodiscard]] std::unique_ptr<ShardedModel> load(std::unique_ptr<Model> model,
                                                   const InferencePlace& place) const override {
    return load_inference_model(weights_, std::move(model), place);
  }

 private:
  families::ModelWeights weights_;
};

}  // namespace

Chat::Chat(const ChatRequest& request, const TokenizerFolder& folder, const Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      encoder_(source_of(request.options, folder, tokenizer), as_text(request.options), tokenizer) {
  if (!request.system.empty()) messages_.push_back(message("system", request.system));
}

std::vector<std::int64_t> Chat::ids(const std::string& question) const {
  nlohmann::ordered_json messages = messages_;
  messages.push_back(message("user", question));
  const auto ids = encoder_.encode_prompt({std::move(messages), nullptr}, *tokenizer_.make_encoder());
  return {ids.begin(), ids.end()};
}

void Chat::remember(const std::string& question, const std::string& answer) {
  messages_.push_back(message("user", question));
  messages_.push_back(message(kAssistant, answer));
}

std::unique_ptr<ModelSource> open_source(const std::filesystem::path& named, const std::string& base,
                                         Communicator& comm) {
  std::unique_ptr<ModelSource> source;
  agree(comm, "open checkpoint", [&, folder = folder_of(named, comm)] {
    if (is_hugging_face(folder)) {
      if (!base.empty())
        throw Error(Code::kUsage, "'", folder.string(), "' holds all of its model; remove --base");
      source = std::make_unique<FolderSource>(folder);
    } else {
      source = std::make_unique<CheckpointSource>(folder, base, comm.rank() == 0);
    }
  });
  return source;
}

}  // namespace echelon::app
