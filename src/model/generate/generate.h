#pragma once
#include <functional>
#include <vector>

#include "model/batch.h"
#include "model/decoder.h"
#include "model/generate/options.h"

namespace echelon {

/// Given whether this process still has an unfinished prompt, returns whether any rank has: a sharded model's
/// ranks all step until the last one is done. Empty: a single process.
using AnyUnfinished = std::function<bool(bool)>;

/// Token ids as prompts of a decoder, on `device`. No prompt may be empty.
[[nodiscard]] Batch prompt_batch(const std::vector<std::vector<std::int64_t>>& prompts, at::Device device);

/// Samples a token from logits [vocabulary], on the host: temperature, then the top_k most likely, then the
/// smallest set of those with total probability top_p (Holtzman et al., nucleus sampling). Depends on the
/// logits, options.seed, the prompt's number and the place of the token in its continuation only.
[[nodiscard]] std::int64_t draw(const at::Tensor& logits, const GenerateOptions& options, std::int64_t prompt,
                                std::int64_t place);

/// The continuation of each of `prompts` prompts, without the token that ends it. Greedy search, drawing, and
/// beam search with the rules and the tie-breaking of transformers' generate(). Throws Error(kUsage) for
/// beams that are to be drawn, and as Decoder::step does.
[[nodiscard]] std::vector<std::vector<std::int64_t>> generate(Decoder& decoder, std::int64_t prompts,
                                                              const GenerateOptions& options,
                                                              const AnyUnfinished& any_unfinished = {});

}  // namespace echelon
