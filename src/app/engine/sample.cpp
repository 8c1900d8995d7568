#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <iostream>

#include "app/engine/engine.h"
#include "app/report_error.h"
#include "base/philox.h"
#include "base/str.h"
#include "checkpoint/reader.h"
#include "data/tokenizer.h"
#include "data/tokenizer_digest.h"
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

/// Inverse-transform sampling with a number that depends on (seed, position) only.
std::int64_t pick(const at::Tensor& logits, double temperature, std::uint64_t seed, std::uint64_t position) {
  if (temperature == 0.0) return logits.argmax().item<std::int64_t>();
  const at::Tensor cumulative = at::softmax(logits.to(at::kDouble) / temperature, 0).cumsum(0);
  const double u =
      static_cast<double>(uniform_at(stream_key(seed, "sample"), position)) * cumulative[-1].item<double>();
  return std::min(at::searchsorted(cumulative, u).item<std::int64_t>(), logits.numel() - 1);
}

int sample(const SampleRequest& request) {
  const at::NoGradGuard no_grad;
  const checkpoint::Reader reader(request.checkpoint);
  const Recipe recipe = recipe_of(reader);
  const std::filesystem::path tokenizer_file = find_tokenizer(reader.folder());
  if (tokenizer_file.empty()) {
    throw Error(Code::kData, str("checkpoint '", reader.folder().string(),
                                 "' holds neither tokenizer.model nor tokenizer.json, so text cannot be "
                                 "turned into tokens; train from data with a tokenizer (data.tokenizer)"));
  }
  const auto owned =
      Tokenizer::from_bytes(reader.attachment(tokenizer_file.filename()), tokenizer_file.string());
  const Tokenizer& tokenizer = *owned;
  const auto model = build_model(recipe.model, resolve(recipe.precision).types(), at::kCPU);
  load_whole(reader, *model);
  std::vector<std::int32_t> encoded = tokenizer.encode(request.prompt);
  std::vector<std::int64_t> ids(encoded.begin(), encoded.end());
  if (tokenizer.bos_id() >= 0) ids.insert(ids.begin(), tokenizer.bos_id());
  if (ids.empty())
    throw Error(Code::kUsage, "--prompt is empty and the tokenizer has no start token: give some text");
  std::vector<std::int32_t> added;
  for (std::int64_t i = 0; i < request.tokens; ++i) {
    const auto window = std::min(static_cast<std::int64_t>(ids.size()), recipe.model.max_positions);
    const at::Tensor context =
        at::from_blob(ids.data() + (static_cast<std::int64_t>(ids.size()) - window), {1, window}, at::kLong);
    const std::int64_t next = pick(model->next_token_logits(context)[0], request.temperature, request.seed,
                                   static_cast<std::uint64_t>(i));
    if (next == tokenizer.eos_id()) break;
    ids.push_back(next);
    added.push_back(static_cast<std::int32_t>(next));
  }
  encoded.insert(encoded.end(), added.begin(), added.end());
  std::cout << tokenizer.decode(encoded) << '\n';
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
