#include <algorithm>
#include <iostream>
#include <optional>
#include <utility>

#include "app/engine/engine.h"
#include "app/engine/rank_error.h"
#include "app/engine/threads.h"
#include "app/report_error.h"
#include "base/log.h"
#include "base/str.h"
#include "bootstrap/options.h"
#include "checkpoint/read/leased_reader.h"
#include "comm/agree.h"
#include "comm/blob_text.h"
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

Recipe recipe_of(const checkpoint::Reader& reader) {
  return recipe::parse_stored_recipe("recipe.yaml of the checkpoint", reader.attachment("recipe.yaml"));
}

/// The tokenizer of the checkpoint, ending texts as its config.json says, and all ids that end one.
struct Language {
  std::unique_ptr<const Tokenizer> tokenizer;
  std::vector<std::int64_t> ends;
};
Language language_of(const checkpoint::Reader& reader) {
  const std::filesystem::path file = find_tokenizer(reader.folder());
  if (file.empty()) {
    throw Error(Code::kData, str("checkpoint '", reader.folder().string(),
                                 "' holds neither tokenizer.model nor tokenizer.json, so text cannot be "
                                 "turned into tokens; train from data with a tokenizer (data.tokenizer)"));
  }
  const auto files = reader.attachments();
  const auto content = [&](const std::string& name) {
    // Imports may hold a generation_config.json that says less: config.json is what training kept up to date.
    const bool counts =
        name != "generation_config.json" && std::find(files.begin(), files.end(), name) != files.end();
    return counts ? reader.attachment(name) : std::string();
  };
  const SpecialIds ids = special_ids_of(content, reader.folder().string());
  auto tokenizer = Tokenizer::from_bytes(reader.attachment(file.filename()), file.string());
  const std::int32_t end = document_end(ids, *tokenizer);
  Language language{ending_with(std::move(tokenizer), end), {ids.ends.begin(), ids.ends.end()}};
  if (language.ends.empty()) language.ends = {end};
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
        encodes_(takes_pairs(model.kind)),
        vocab_size_(model.vocab_size),
        search_(search) {
    search_.end_ids = language.ends;
    if (encodes_) return;
    longest_ = longest_sequence(model) - search.max_new_tokens;
    if (longest_ > 0) return;
    throw Error(Code::kUsage, str("--tokens is ", search.max_new_tokens, "; the model takes at most ",
                                  longest_sequence(model), " tokens including the prompt: expected at most ",
                                  longest_sequence(model) - 1));
  }

  /// The prompt's ids in the form that `echelon prepare` gives to the start of a document, or to a source
  /// text for encoder-decoders. A prompt that is too long for the model loses its beginning.
  [[nodiscard]] std::vector<std::int64_t> ids(const std::string& prompt) const {
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

  /// The prompt as it was given, with its continuation; for an encoder-decoder, the answer alone.
  [[nodiscard]] std::string text(const std::string& prompt, const std::vector<std::int64_t>& added) const {
    std::vector<std::int32_t> all = encodes_ ? std::vector<std::int32_t>{} : tokenizer_.encode(prompt);
    // Decoded with what precedes it, or a space at the beginning of the continuation could be lost.
    const std::string before = data::decode_any(tokenizer_, all);
    for (const std::int64_t id : added) {
      all.push_back(static_cast<std::int32_t>(id));
      if (id >= tokenizer_.vocab_size()) warn_of(id);
    }
    const std::string text = data::decode_any(tokenizer_, all);
    return encodes_ || !text.starts_with(before) ? text : prompt + text.substr(before.size());
  }

  /// The answers to this rank's prompts. `first`: number of the first of them. Collective.
  [[nodiscard]] Texts answers(ShardedModel& model, Communicator& comm, const Texts& prompts,
                              std::size_t first) {
    std::vector<std::vector<std::int64_t>> asked;
    agree(comm, "prompts", [&] {
      for (const std::string& prompt : prompts) asked.push_back(ids(prompt));
    });
    search_.first_prompt = static_cast<std::int64_t>(first);
    const auto added = generate_together(model, prompt_batch(asked, at::kCPU), search_, comm);
    Texts answers;
    for (std::size_t i = 0; i < prompts.size(); ++i) answers.push_back(text(prompts[i], added[i]));
    return answers;
  }

 private:
  void warn_of(std::int64_t id) const {
    if (std::exchange(warned_, true)) return;
    log::warn(str("the model generated token id ", id, "; its vocabulary has ", vocab_size_,
                  " ids, the tokenizer ", tokenizer_.vocab_size(), ": such ids are shown as U+FFFD"));
  }

  const Tokenizer& tokenizer_;
  bool encodes_;  ///< encoder-decoder: the prompt is the encoder's input
  std::int64_t vocab_size_;
  mutable bool warned_ = false;
  GenerateOptions search_;
  std::int64_t longest_ = 0;  ///< longest prompt in tokens; not for encoder-decoders
};

/// The step folder to read. Rank 0 chooses, since a run that is saving could make ranks choose differently.
/// Collective.
std::filesystem::path step_folder(const std::filesystem::path& checkpoint, Communicator& comm) {
  std::string found;
  agree(comm, "find checkpoint", [&] {
    if (comm.rank() == 0) found = checkpoint::Reader(checkpoint).folder().string();
  });
  return to_text(comm.gather_blobs(to_blob(found), "checkpoint").at(0));
}

/// The texts of all ranks in rank order, `share` entries per rank. Collective.
Texts gather(Communicator& comm, const Texts& mine, std::size_t share) {
  Texts all(share * static_cast<std::size_t>(comm.size()));
  for (std::size_t i = 0; i < share; ++i) {
    const auto found = comm.gather_blobs(to_blob(i < mine.size() ? mine[i] : ""), "texts");
    for (std::size_t rank = 0; rank < found.size(); ++rank) all[rank * share + i] = to_text(found[rank]);
  }
  return all;
}

/// Continues the prompts from `first` on, an equal share per rank. Returns the number of the next prompt.
/// Collective.
std::size_t answer(Conversation& conversation, ShardedModel& model, Communicator& comm, const Texts& prompts,
                   std::size_t first) {
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
      model, comm, {at, at + static_cast<std::ptrdiff_t>(std::max<std::size_t>(count, 1))}, from);
  mine.resize(count);
  Texts all = gather(comm, mine, share);
  all.resize(end - first);  // the last ranks' shares may be smaller
  for (const std::string& text : all) {
    if (comm.rank() == 0) std::cout << text << std::endl;
  }
  return end;
}

void sample(const SampleRequest& request, Job& job) {
  set_threads(0, job.info());
  const auto comm = make_mpi_communicator(job, static_cast<double>(ClusterOptions{}.timeout_s));
  std::optional<checkpoint::LeasedReader> leased;
  agree(*comm, "open checkpoint",
        [&, folder = step_folder(request.checkpoint, *comm)] { leased.emplace(folder, comm->rank() == 0); });
  std::unique_ptr<Model> model;
  Language language;
  std::optional<Conversation> conversation;
  agree(*comm, "recipe and tokenizer", [&] {
    const Recipe recipe = recipe_of(leased->reader);
    model = build_model(recipe.model, resolve(recipe.precision).types(), at::kCPU);
    (void)model->decoder(prompt_batch({{0}}, at::kCPU));  // models that cannot generate refuse here
    language = language_of(leased->reader);
    conversation.emplace(language, recipe.model, request.search);
  });
  const auto sharded = load_inference_model(leased->reader, std::move(model), *comm);
  // The weights are loaded: end the lease, so that the run may remove the checkpoint.
  leased.reset();
  for (std::size_t next = 0; next < request.prompts.size();)
    next = answer(*conversation, *sharded, *comm, request.prompts, next);
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
