#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <utility>

#include "app/engine/engine.h"
#include "app/engine/inference/infer.h"
#include "app/engine/inference/model_source.h"
#include "base/foreign_text.h"
#include "base/log.h"
#include "base/str.h"
#include "base/terminal/progress_bar.h"
#include "base/terminal/status_line.h"
#include "comm/agree.h"
#include "comm/exchange.h"
#include "model/model.h"
#include "text/tokenizer.h"
#include "train/eval/inference_model.h"

namespace echelon::app {
namespace {

/// Prompts per rank in one batch; bounds the memory of activations and caches.
constexpr std::size_t kPromptsAtOnce = 32;

using Texts = std::vector<std::string>;

/// Converts prompts to token ids and generated ids to text.
class Conversation {
 public:
  Conversation(const Language& language, const ModelOptions& model, const SampleRequest& request)
      : tokenizer_(*language.tokenizer),
        chat_(language.chat.get()),
        encodes_(takes_pairs(model.kind)),
        vocab_size_(model.vocab_size),
        prompt_file_(request.prompt_file),
        search_(request.search) {
    search_.end_ids = language.ends;
    if (encodes_ && chat_ == nullptr) return;
    if (encodes_) throw Error(Code::kUsage, "--chat: an encoder-decoder has no turns");
    longest_ = longest_sequence(model) - search_.max_new_tokens;
    if (longest_ > 0) return;
    throw Error(Code::kUsage, "--tokens is ", search_.max_new_tokens, "; the model takes at most ",
                longest_sequence(model), " tokens including the prompt: expected at most ",
                longest_sequence(model) - 1);
  }

  /// The prompt's ids in the form that `echelon prepare` gives to the start of a document, or to a source
  /// text for encoder-decoders; of a conversation, what was said before as well. A prompt that is too long
  /// for the model loses its beginning, with a warning; a conversation that is, is refused.
  [[nodiscard]] std::vector<std::int64_t> ids(const std::string& prompt) const {
    if (chat_ != nullptr) return of_chat(prompt);
    const std::vector<std::int32_t> encoded = tokenizer_.encode(prompt);
    std::vector<std::int64_t> ids(encoded.begin(), encoded.end());
    if (tokenizer_.bos_id() >= 0) ids.insert(ids.begin(), tokenizer_.bos_id());
    if (encodes_ && tokenizer_.eos_id() >= 0) ids.push_back(tokenizer_.eos_id());
    if (ids.empty())
      throw Error(Code::kUsage, "a prompt is empty and the tokenizer has no start token: give some text");
    require_known(ids);
    const auto size = static_cast<std::int64_t>(ids.size());
    if (!encodes_ && size > longest_) {
      log::warn(str("a prompt has ", size, " tokens; with --tokens ", search_.max_new_tokens,
                    " the model takes its last ", longest_));
      ids.erase(ids.begin(), ids.end() - longest_);
    }
    return ids;
  }

  /// The prompt as it was given, with its continuation; of an encoder-decoder or a conversation, the answer
  /// alone.
  [[nodiscard]] std::string text(const std::string& prompt, const std::vector<std::int64_t>& added) const {
    const bool alone = encodes_ || chat_ != nullptr;
    std::vector<std::int32_t> all = alone ? std::vector<std::int32_t>{} : tokenizer_.encode(prompt);
    // Decoded with what precedes it, or a space at the beginning of the continuation could be lost.
    const std::string before = tokenizer_.decode_any(all);
    for (const std::int64_t id : added) {
      all.push_back(static_cast<std::int32_t>(id));
      if (id >= tokenizer_.vocab_size()) warn_of(id);
    }
    const std::string text = tokenizer_.decode_any(all);
    return alone || !text.starts_with(before) ? text : prompt + text.substr(before.size());
  }

  /// The answers to this rank's prompts. `first`: number of the first of them. Collective.
  [[nodiscard]] Texts answers(ShardedModel& model, const InferencePlace& place, const Texts& prompts,
                              std::size_t first) {
    std::vector<std::vector<std::int64_t>> asked;
    agree(place.comm, "prompts", [&] {
      for (const std::string& prompt : prompts) {
        const std::size_t line = first + asked.size() + 1;
        asked.push_back(prompt_file_.empty()
                            ? ids(prompt)
                            : in_context(str("--prompt-file '", prompt_file_, "', line ", line),
                                         [&] { return ids(prompt); }));
      }
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
    require_known(ids);
    const auto size = static_cast<std::int64_t>(ids.size());
    if (size <= longest_) return ids;
    throw Error(Code::kUsage, "the conversation has ", size, " tokens; with --tokens ",
                search_.max_new_tokens, " the model takes at most ", longest_,
                ": ask for fewer, or begin anew");
  }

  void require_known(const std::vector<std::int64_t>& ids) const {
    for (const std::int64_t id : ids) {
      if (id < vocab_size_) continue;
      throw Error(Code::kData, "a prompt has token id ", id, "; the tokenizer has ", tokenizer_.vocab_size(),
                  " ids and the model ", vocab_size_,
                  ": the checkpoint's tokenizer is not the one it was trained with");
    }
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
  std::string prompt_file_;
  mutable bool warned_ = false;
  GenerateOptions search_;
  std::int64_t longest_ = 0;  ///< longest prompt in tokens; not for encoder-decoders
};

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
  status_line::show("");
  for (const std::string& text : gather(comm, mine)) {
    if (comm.rank() == 0) std::cout << text << std::endl;
  }
  return end;
}

/// Answers each line of standard input as the next turn of one conversation. One rank.
void talk(Conversation& conversation, Chat& chat, ShardedModel& model, const InferencePlace& place) {
  const bool asks = ::isatty(STDIN_FILENO) == 1;
  std::size_t turn = 0;  // the number of its prompt, with which the tokens are drawn
  for (std::string question;
       std::cout << (asks ? "> " : "") << std::flush, std::getline(std::cin, question);) {
    question = unix_text(question);
    if (question.find_first_not_of(" \t") == std::string::npos) continue;
    const std::string answer = conversation.answers(model, place, {question}, turn++).at(0);
    std::cout << answer << std::endl;
    chat.remember(question, answer);
  }
}

void sample(const SampleRequest& request, const InferencePlace& place) {
  Communicator& comm = place.comm;
  std::unique_ptr<const ModelSource> source = open_source(request.checkpoint, request.base, comm);
  std::unique_ptr<Model> model;
  Language language;
  std::optional<Conversation> conversation;
  agree(comm, "recipe and tokenizer", [&] {
    const Recipe recipe = source->recipe();
    model = build_model(recipe.model, at::kFloat, place.device, recipe.lora);
    (void)model->decoder(prompt_batch({{0}}, place.device));  // models that cannot generate refuse here
    language = source->language(request.chat);
    conversation.emplace(language, recipe.model, request);
  });
  const auto sharded = source->load(std::move(model), place);
  // The weights are loaded: end the lease, so that the run may remove the checkpoint.
  source.reset();
  if (request.prompts.empty()) return talk(*conversation, *language.chat, *sharded, place);
  ProgressBar bar("sampling", "prompts");
  for (std::size_t next = 0; next < request.prompts.size();) {
    bar.show(next, request.prompts.size());
    next = answer(*conversation, *sharded, place, request.prompts, next);
  }
}

}  // namespace
}  // namespace echelon::app

int echelon_engine_sample(const echelon::app::SampleRequest& request) {
  return echelon::app::infer(
      request, [&](const echelon::InferencePlace& place) { echelon::app::sample(request, place); });
}
