#include "model/generate/generate.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "base/philox.h"
#include "base/str.h"
#include "model/generate/beam_search.h"

namespace echelon {
namespace {

using Continuations = std::vector<std::vector<std::int64_t>>;

/// Every prompt's next token: the most likely one, or a sampled one.
std::vector<std::int64_t> next_tokens(const at::Tensor& logits, const GenerateOptions& options,
                                      std::int64_t place) {
  const at::Tensor host = options.temperature == 0.0 ? logits.argmax(1).cpu() : logits.cpu();
  std::vector<std::int64_t> ids(static_cast<std::size_t>(logits.size(0)));
  for (std::size_t row = 0; row < ids.size(); ++row) {
    const auto r = static_cast<std::int64_t>(row);
    ids[row] = options.temperature == 0.0 ? host[r].item<std::int64_t>()
                                          : draw(host[r], options, options.first_prompt + r, place);
  }
  return ids;
}

Continuations single_search(Decoder& decoder, std::int64_t prompts, const GenerateOptions& options,
                            const AnyUnfinished& any_unfinished) {
  Continuations found(static_cast<std::size_t>(prompts));
  std::vector<bool> done(found.size(), false);
  at::Tensor logits = decoder.start();
  for (std::int64_t place = 0;; ++place) {
    const std::vector<std::int64_t> ids = next_tokens(logits, options, place);
    for (std::size_t row = 0; row < ids.size(); ++row) {
      if (options.ends(ids[row])) done[row] = true;
      if (!done[row]) found[row].push_back(ids[row]);
    }
    if (place + 1 == options.max_new_tokens) return found;
    const bool unfinished = !std::all_of(done.begin(), done.end(), [](bool d) { return d; });
    // With sharded weights a step is collective: all ranks go on until the last prompt of all is done.
    if (!(any_unfinished ? any_unfinished(unfinished) : unfinished)) return found;
    logits = decoder.step(at::tensor(ids, at::kLong).to(logits.device()));
  }
}

}  // namespace

std::int64_t draw(const at::Tensor& logits, const GenerateOptions& options, std::int64_t prompt,
                  std::int64_t place) {
  const at::Tensor scaled = logits.to(at::kDouble) / options.temperature;
  const std::int64_t vocabulary = scaled.size(0);
  const std::int64_t kept = options.top_k > 0 ? std::min(options.top_k, vocabulary) : vocabulary;
  const auto [top, ids] = scaled.sort(/*stable=*/true, 0, /*descending=*/true);
  at::Tensor cumulative = at::softmax(top.narrow(0, 0, kept), 0).cumsum(0);
  const auto* shares = cumulative.const_data_ptr<double>();
  // The candidates end with the first token at which the cumulative probability reaches top_p.
  std::int64_t last = 0;
  while (last + 1 < kept && shares[last] < options.top_p) ++last;
  // A pure function of seed, prompt number and position, so neither the batch nor the rank changes the
  // token.
  const std::uint64_t key = stream_key(options.seed, str("sample/", prompt));
  const double chance =
      static_cast<double>(uniform_at(key, static_cast<std::uint64_t>(place))) * shares[last];
  const auto* drawn = std::upper_bound(shares, shares + last, chance);
  return ids[drawn - shares].item<std::int64_t>();
}

Batch prompt_batch(const std::vector<std::vector<std::int64_t>>& prompts, at::Device device) {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> lengths;
  for (const auto& prompt : prompts) {
    ids.insert(ids.end(), prompt.begin(), prompt.end());
    lengths.push_back(static_cast<std::int64_t>(prompt.size()));
  }
  Batch batch;
  batch.samples = static_cast<std::int64_t>(prompts.size());
  batch.ids = at::tensor(ids, at::kLong).to(device);
  batch.sequences = batch.by_sample = make_sequences(std::move(lengths));
  return batch;
}

Continuations generate(Decoder& decoder, std::int64_t prompts, const GenerateOptions& options,
                       const AnyUnfinished& any_unfinished) {
  const at::NoGradGuard no_grad;
  if (options.beams == 1) return single_search(decoder, prompts, options, any_unfinished);
  if (options.temperature != 0.0)
    throw Error(Code::kUsage, "a beam search does not sample: use one beam, or temperature 0");
  return beam_search(decoder, prompts, options, any_unfinished);
}

}  // namespace echelon
