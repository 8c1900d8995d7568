#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <utility>

#include "app/engine/accelerator.h"
#include "app/engine/engine.h"
#include "app/engine/rank_error.h"
#include "app/engine/sample/chat.h"
#include "app/engine/threads.h"
#include "app/report_error.h"
#include "base/log.h"
#include "base/str.h"
#include "bootstrap/options.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/read/leased_reader.h"
#include "comm/agree.h"
#include "comm/exchange.h"
#include "comm/mpi/mpi_world.h"
#include "families/model_weights.h"
#include "model/model.h"
#include "model/ops/products/compiled_products.h"
#include "recipe/parse.h"
#include "text/decode_any.h"
#include "text/special_ids.h"
#include "text/tokenizer.h"
#include "text/tokenizer_digest.h"
#include "train/eval/inference_model.h"

namespace echelon::app {
namespace {

/// The tokenizer of the model, ending texts as its config.json says, and all ids that end one.
struct Language {
  std::unique_ptr<const Tokenizer> tokenizer;
  std::vector<std::int64_t> ends;
  std::unique_ptr<Chat> chat;  ///< null: texts are continued as they are
};

/// Only a tokenizer.json finds the special tokens of a template in a text.
std::filesystem::path tokenizer_of(const std::filesystem::path& folder, bool chats) {
  const std::filesystem::path json = folder / "tokenizer.json";
  return chats && checkpoint::entry_exists(json) ? json : find_tokenizer(folder);
}

Language language_of(const std::filesystem::path& folder, const char* what,
                     const std::optional<ChatRequest>& chat, const FolderFile& text) {
  const std::filesystem::path file = tokenizer_of(folder, chat.has_value());
  if (file.empty()) {
    throw Error(Code::kData, str(what, " '", folder.string(),
                                 "' holds neither tokenizer.model nor tokenizer.json, so text cannot be "
                                 "turned into tokens; train from data with a tokenizer (data.tokenizer)"));
  }
  const auto content = [&](const std::string& name) {
    // Imports may hold a generation_config.json that says less: config.json is what training kept up to date.
    return name == "generation_config.json" ? std::string() : text(name);
  };
  const SpecialIds ids = special_ids_of(content, folder.string());
  const std::string bytes = text(file.filename());
  if (chat && tokenizer_file_name(bytes) != "tokenizer.json") {
    throw Error(Code::kData, str("--chat: '", file.string(),
                                 "' is a sentencepiece model, which does not find the special tokens of a "
                                 "chat in its text: put the model's tokenizer.json beside it"));
  }
  auto tokenizer = Tokenizer::from_bytes(bytes, file.string());
  const std::int32_t end = document_end(ids, *tokenizer);
  Language language{ending_with(std::move(tokenizer), end), {ids.ends.begin(), ids.ends.end()}, nullptr};
  if (language.ends.empty()) language.ends = {end};
  if (chat) {
    language.chat = std::make_unique<Chat>(*chat, TokenizerFolder(folder, content), *language.tokenizer);
    language.ends.push_back(language.chat->end());
  }
  return language;
}

/// Prompts per rank in one batch; bounds the memory of activations and caches.
constexpr std::size_t kPromptsAtOnce = 32;

constexpr const char* kOutOfMemory =
    "out of memory: the weights are kept in fp32; distribute them over more ranks (--ranks), or use fewer "
    "prompts or beams";

using Texts = std::vector<std::string>;

/// Converts prompts to token ids and generated ids to text.
class Conversation {
 public:
  Conversation(const Language& language, const ModelOptions& model, const GenerateOptions& search)
      : tokenizer_(*language.tokenizer),
        chat_(language.chat.get()),
        encodes_(takes_pairs(model.kind)),
        vocab_size_(model.vocab_size),
        search_(search) {
    search_.end_ids = language.ends;
    if (encodes_ && chat_ == nullptr) return;
    if (encodes_) throw Error(Code::kUsage, "--chat: an encoder-decoder has no turns");
    longest_ = longest_sequence(model) - search.max_new_tokens;
    if (longest_ > 0) return;
    throw Error(Code::kUsage, str("--tokens is ", search.max_new_tokens, "; the model takes at most ",
                                  longest_sequence(model), " tokens including the prompt: expected at most ",
                                  longest_sequence(model) - 1));
  }

  /// The prompt's ids in the form that `echelon prepare` gives to the start of a document, or to a source
  /// text for encoder-decoders; of a conversation, what was said before as well. A prompt that is too long
  /// for the model loses its beginning; a conversation that is, is refused.
  [[nodiscard]] std::vector<std::int64_t> ids(const std::string& prompt) const {
    if (chat_ != nullptr) return of_chat(prompt);
    const std::vector<std::int32_t> encoded = tokenizer_.encode(prompt);
    std::vector<std::int64_t> ids(encoded.begin(), encoded.end());
    if (tokenizer_.bos_id() >= 0) ids.insert(ids.begin(), tokenizer_.bos_id());
    if (encodes_ && tokenizer_.eos_id() >= 0) ids.push_back(tokenizer_.eos_id());
    if (ids.empty())
      throw Error(Code::kUsage, "a prompt is empty and the tokenizer has no start token: give some text");
    for (const std::int64_t id : ids) {
      if (id < vocab_size_) continue;
      throw Error(Code::kData, str("a prompt has token id ", id, "; the tokenizer has ",
                                   tokenizer_.vocab_size(), " ids and the model ", vocab_size_,
                                   ": the checkpoint's tokenizer is not the one it was trained with"));
    }
    const auto size = static_cast<std::int64_t>(ids.size());
    if (!encodes_ && size > longest_) ids.erase(ids.begin(), ids.end() - longest_);
    return ids;
  }

  /// The prompt as it was given, with its continuation; of an encoder-decoder or a conversation, the answer
  /// alone.
  [[nodiscard]] std::string text(const std::string& prompt, const std::vector<std::int64_t>& added) const {
    const bool alone = encodes_ || chat_ != nullptr;
    std::vector<std::int32_t> all = alone ? std::vector<std::int32_t>{} : tokenizer_.encode(prompt);
    // Decoded with what precedes it, or a space at the beginning of the continuation could be lost.
    const std::string before = data::decode_any(tokenizer_, all);
    for (const std::int64_t id : added) {
      all.push_back(static_cast<std::int32_t>(id));
      if (id >= tokenizer_.vocab_size()) warn_of(id);
    }
    const std::string text = data::decode_any(tokenizer_, all);
    return alone || !text.starts_with(before) ? text : prompt + text.substr(before.size());
  }

  /// The answers to this rank's prompts. `first`: number of the first of them. Collective.
  [[nodiscard]] Texts answers(ShardedModel& model, const InferencePlace& place, const Texts& prompts,
                              std::size_t first) {
    std::vector<std::vector<std::int64_t>> asked;
    agree(place.comm, "prompts", [&] {
      for (const std::string& prompt : prompts) asked.push_back(ids(prompt));
    });
    search_.first_prompt = static_cast<std::int64_t>(first);
    const auto added = generate_together(model, prompt_batch(asked, place.device), search_, place.comm);
    Texts answers;
    for (std::size_t i = 0; i < prompts.size(); ++i) answers.push_back(text(prompts[i], added[i]));
    return answers;
  }

 private:
  [[nodiscard]] std::vector<std::int64_t> of_chat(const std::string& question) const {
    std::vector<std::int64_t> ids = chat_->ids(question);
    const auto size = static_cast<std::int64_t>(ids.size());
    if (size <= longest_) return ids;
    throw Error(Code::kUsage,
                str("the conversation has ", size, " tokens; with --tokens ", search_.max_new_tokens,
                    " the model takes at most ", longest_, ": ask for fewer, or begin anew"));
  }

  void warn_of(std::int64_t id) const {
    if (std::exchange(warned_, true)) return;
    log::warn(str("the model generated token id ", id, "; its vocabulary has ", vocab_size_,
                  " ids, the tokenizer ", tokenizer_.vocab_size(), ": such ids are shown as U+FFFD"));
  }

  const Tokenizer& tokenizer_;
  const Chat* chat_;  ///< null: prompts are continued as they are
  bool encodes_;      ///< encoder-decoder: the prompt is the encoder's input
  std::int64_t vocab_size_;
  mutable bool warned_ = false;
  GenerateOptions search_;
  std::int64_t longest_ = 0;  ///< longest prompt in tokens; not for encoder-decoders
};

/// The Hugging Face folder or step folder to read. Rank 0 chooses, since a run that is saving could make
/// ranks choose differently. Collective.
std::filesystem::path folder_of(const std::filesystem::path& named, Communicator& comm) {
  std::string found;
  agree(comm, "find checkpoint", [&] {
    if (comm.rank() != 0) return;
    found = families::is_model_folder(named) ? named.string() : checkpoint::Reader(named).folder().string();
  });
  return broadcast_value(comm, found, "checkpoint");
}

/// The source of samples: a checkpoint, or a Hugging Face folder.
class Source {
 public:
  virtual ~Source() = default;
  [[nodiscard]] virtual Recipe recipe() const = 0;
  [[nodiscard]] virtual Language language(const std::optional<ChatRequest>& chat) const = 0;
  /// Collective.
  [[nodiscard]] virtual std::unique_ptr<ShardedModel> load(std::unique_ptr<Model> model,
                                                           const InferencePlace& place) const = 0;
};

/// Until it ends, no run removes the checkpoint.
class CheckpointSource final : public Source {
 public:
  CheckpointSource(const std::filesystem::path& folder, std::string base, bool tells)
      : leased_(folder, tells), base_(std::move(base)) {}
  [[nodiscard]] Recipe recipe() const override {
    return recipe::parse_stored_recipe("recipe.yaml of the checkpoint",
                                       leased_.reader.attachment("recipe.yaml"));
  }
  [[nodiscard]] Language language(const std::optional<ChatRequest>& chat) const override {
    const auto files = leased_.reader.attachments();
    return language_of(leased_.reader.folder(), "checkpoint", chat, [&](const std::string& name) {
      const bool there = std::find(files.begin(), files.end(), name) != files.end();
      return there ? leased_.reader.attachment(name) : std::string();
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

class FolderSource final : public Source {
 public:
  explicit FolderSource(const std::filesystem::path& folder) : weights_(folder, "cannot sample from") {}
  [[nodiscard]] Recipe recipe() const override {
    return recipe::parse_stored_recipe("config.json", weights_.model().whole_recipe());
  }
  [[nodiscard]] Language language(const std::optional<ChatRequest>& chat) const override {
    return language_of(weights_.folder(), "folder", chat, [&](const std::string& name) {
      if (name == "config.json") return weights_.config();
      const std::filesystem::path file = weights_.folder() / name;
      return checkpoint::entry_exists(file) ? checkpoint::read_input(file, checkpoint::kMaxAttachmentBytes)
                                            : std::string();
    });
  }
  [[nodiscard]] std::unique_ptr<ShardedModel> load(std::unique_ptr<Model> model,
                                                   const InferencePlace& place) const override {
    return load_inference_model(weights_, std::move(model), place);
  }

 private:
  families::ModelWeights weights_;
};

/// Collective.
std::unique_ptr<Source> open_source(const SampleRequest& request, Communicator& comm) {
  std::unique_ptr<Source> source;
  agree(comm, "open checkpoint", [&, folder = folder_of(request.checkpoint, comm)] {
    if (families::is_model_folder(folder)) {
      if (!request.base.empty())
        throw Error(Code::kUsage, str("'", folder.string(), "' holds all of its model; remove --base"));
      source = std::make_unique<FolderSource>(folder);
    } else {
      source = std::make_unique<CheckpointSource>(folder, request.base, comm.rank() == 0);
    }
  });
  return source;
}

/// The texts of all ranks in rank order. Collective.
Texts gather(Communicator& comm, const Texts& mine) {
  Texts all;
  for (Texts& texts : gather_values(comm, mine, "texts"))
    all.insert(all.end(), std::make_move_iterator(texts.begin()), std::make_move_iterator(texts.end()));
  return all;
}

/// Continues the prompts from `first` on, an equal share per rank. Returns the number of the next prompt.
/// Collective.
std::size_t answer(Conversation& conversation, ShardedModel& model, const InferencePlace& place,
                   const Texts& prompts, std::size_t first) {
  Communicator& comm = place.comm;
  const auto ranks = static_cast<std::size_t>(comm.size());
  const std::size_t end = std::min(prompts.size(), first + ranks * kPromptsAtOnce);
  const std::size_t share = (end - first + ranks - 1) / ranks;
  const std::size_t begin = std::min(end, first + static_cast<std::size_t>(comm.rank()) * share);
  const std::size_t count = std::min(share, end - begin);
  // All ranks must take part in gathering weights, so a rank without a prompt of its own computes another
  // one.
  const std::size_t from = count > 0 ? begin : first;
  const auto at = prompts.begin() + static_cast<std::ptrdiff_t>(from);
  Texts mine = conversation.answers(
      model, place, {at, at + static_cast<std::ptrdiff_t>(std::max<std::size_t>(count, 1))}, from);
  mine.resize(count);
  for (const std::string& text : gather(comm, mine)) {
    if (comm.rank() == 0) std::cout << text << std::endl;
  }
  return end;
}

/// Answers each line of standard input as the next turn of one conversation. One rank.
void talk(Conversation& conversation, Chat& chat, ShardedModel& model, const InferencePlace& place) {
  const bool asks = ::isatty(STDIN_FILENO) == 1;
  for (std::string question;
       std::cout << (asks ? "> " : "") << std::flush, std::getline(std::cin, question);) {
    if (question.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string answer = conversation.answers(model, place, {question}, 0).at(0);
    std::cout << answer << std::endl;
    chat.remember(question, answer);
  }
}

void sample(const SampleRequest& request, Job& job) {
  constexpr auto kTimeout_s = static_cast<double>(ClusterOptions{}.timeout_s);
  set_threads(0, job.info());
  const Compute compute = choose_compute({.device = request.device}, job, "--device");
  const auto comm = make_mpi_communicator(job, kTimeout_s);
  const auto between_devices = device_communicator(compute, job, kTimeout_s, {});
  const InferencePlace place{*comm, between_devices.get(), compute.device};
  std::unique_ptr<const Source> source = open_source(request, *comm);
  std::unique_ptr<Model> model;
  Language language;
  std::optional<Conversation> conversation;
  agree(*comm, "recipe and tokenizer", [&] {
    const Recipe recipe = source->recipe();
    model = build_model(recipe.model, resolve(recipe.precision).types(), compute.device, recipe.lora);
    (void)model->decoder(prompt_batch({{0}}, compute.device));  // models that cannot generate refuse here
    language = source->language(request.chat);
    conversation.emplace(language, recipe.model, request.search);
  });
  const auto sharded = source->load(std::move(model), place);
  // The weights are loaded: end the lease, so that the run may remove the checkpoint.
  source.reset();
  for (std::size_t next = 0; next < request.prompts.size();)
    next = answer(*conversation, *sharded, place, request.prompts, next);
  if (request.prompts.empty()) talk(*conversation, *language.chat, *sharded, place);
}

/// One rank; its error aborts the others.
int sample_in_job(const SampleRequest& request) {
  // Each generated token has new shapes, so oneDNN would fill its cache with products that are not used
  // again.
  ops::keep_compiled_products(ops::products_worth_keeping(1, 1, kernels::bf16_products()));
  const auto job = bootstrap(request.launch, static_cast<double>(ClusterOptions{}.timeout_s));
  try {
    sample(request, *job);
    finish_mpi();
    job->finish();
    return 0;
  } catch (...) {
    const Error error = current_error(kOutOfMemory);
    const int status = report_error(error, where(*job));
    job->abort(status, error.what());
    return status;
  }
}

}  // namespace
}  // namespace echelon::app

int echelon_engine_sample(const echelon::app::SampleRequest& request) {
  try {
    return echelon::app::sample_in_job(request);
  } catch (const echelon::Error& error) {
    return echelon::app::report_error(error, "");
  }
}
