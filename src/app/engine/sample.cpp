#include <ATen/core/grad_mode.h>

#include <iostream>

#include "app/engine/engine.h"
#include "app/report_error.h"
#include "base/str.h"
#include "checkpoint/reader.h"
#include "data/tokenizer.h"
#include "data/tokenizer_digest.h"
#include "model/generate/generate.h"
#include "model/model.h"
#include "recipe/parse.h"
#include "shard/sharded_model.h"
#include "train/whole_model.h"

namespace echelon::app {
namespace {

Recipe recipe_of(const checkpoint::Reader& reader) {
  return recipe::parse_recipe_text("recipe.yaml of the checkpoint", reader.attachment("recipe.yaml"), {},
                                   [](const std::filesystem::path& path) -> std::string {
                                     throw Error(Code::kCheckpoint,
                                                 str("recipe includes '", path.string(), "'"));
                                   })
      .recipe;
}

std::unique_ptr<const Tokenizer> tokenizer_of(const checkpoint::Reader& reader) {
  const std::filesystem::path file = find_tokenizer(reader.folder());
  if (file.empty()) {
    throw Error(Code::kData, str("checkpoint '", reader.folder().string(),
                                 "' holds neither tokenizer.model nor tokenizer.json, so text cannot be "
                                 "turned into tokens; train from data with a tokenizer (data.tokenizer)"));
  }
  return Tokenizer::from_bytes(reader.attachment(file.filename()), file.string());
}

/// Prompts that are continued at the same time.
constexpr std::size_t kPromptsAtOnce = 32;

/// What a model is asked with, and how its answer is read.
class Conversation {
 public:
  Conversation(const Tokenizer& tokenizer, const ModelOptions& model, const GenerateOptions& search)
      : tokenizer_(tokenizer), encodes_(model.kind == "t5"), search_(search) {
    search_.end_id = tokenizer.eos_id();
    if (encodes_) return;
    longest_ = model.max_positions - search.max_new_tokens;
    if (longest_ > 0) return;
    throw Error(Code::kUsage,
                str("--tokens is ", search.max_new_tokens, "; the model takes ", model.max_positions,
                    " tokens, the prompt's included: expected at most ", model.max_positions - 1));
  }

  /// A document as `echelon prepare` begins it, or a source as it writes it. Of a prompt longer than the
  /// model sees, the end counts.
  [[nodiscard]] std::vector<std::int64_t> ids(const std::string& prompt) const {
    const std::vector<std::int32_t> encoded = tokenizer_.encode(prompt);
    std::vector<std::int64_t> ids(encoded.begin(), encoded.end());
    if (tokenizer_.bos_id() >= 0) ids.insert(ids.begin(), tokenizer_.bos_id());
    if (encodes_ && tokenizer_.eos_id() >= 0) ids.push_back(tokenizer_.eos_id());
    if (ids.empty())
      throw Error(Code::kUsage, "a prompt is empty and the tokenizer has no start token: give some text");
    const auto size = static_cast<std::int64_t>(ids.size());
    if (!encodes_ && size > longest_) ids.erase(ids.begin(), ids.end() - longest_);
    return ids;
  }

  /// The prompt with what was added, or of an encoder-decoder the answer.
  [[nodiscard]] std::string text(const std::string& prompt, const std::vector<std::int64_t>& added) const {
    std::vector<std::int32_t> all = encodes_ ? std::vector<std::int32_t>{} : tokenizer_.encode(prompt);
    for (const std::int64_t id : added) all.push_back(static_cast<std::int32_t>(id));
    return tokenizer_.decode(all);
  }

  void answer(const Model& model, const std::vector<std::string>& prompts, std::size_t first) {
    std::vector<std::vector<std::int64_t>> asked;
    for (const std::string& prompt : prompts) asked.push_back(ids(prompt));
    search_.first_prompt = static_cast<std::int64_t>(first);
    const auto decoder = model.decoder(prompt_batch(asked, at::kCPU));
    const auto added = generate(*decoder, static_cast<std::int64_t>(asked.size()), search_);
    for (std::size_t i = 0; i < prompts.size(); ++i) std::cout << text(prompts[i], added[i]) << '\n';
  }

 private:
  const Tokenizer& tokenizer_;
  bool encodes_;  ///< the prompt goes into an encoder
  GenerateOptions search_;
  std::int64_t longest_ = 0;  ///< prompt
};

int sample(const SampleRequest& request) {
  const at::NoGradGuard no_grad;
  const checkpoint::Reader reader(request.checkpoint);
  const Recipe recipe = recipe_of(reader);
  const auto tokenizer = tokenizer_of(reader);
  Conversation conversation(*tokenizer, recipe.model, request.search);
  const auto model = build_model(recipe.model, resolve(recipe.precision).types(), at::kCPU);
  load_whole(reader, *model);
  for (std::size_t first = 0; first < request.prompts.size(); first += kPromptsAtOnce) {
    const std::size_t end = std::min(request.prompts.size(), first + kPromptsAtOnce);
    conversation.answer(*model,
                        {request.prompts.begin() + static_cast<std::ptrdiff_t>(first),
                         request.prompts.begin() + static_cast<std::ptrdiff_t>(end)},
                        first);
  }
  return 0;
}

}  // namespace
}  // namespace echelon::app

int echelon_engine_sample(const echelon::app::SampleRequest& request) {
  try {
    return echelon::app::sample(request);
  } catch (const echelon::Error& error) {
    return echelon::app::report_error(error, "");
  } catch (const std::exception& error) {
    return echelon::app::report_error(echelon::Error(echelon::Code::kTraining, error.what()), "");
  }
}
