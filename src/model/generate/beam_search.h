#pragma once
#include <vector>

#include "model/generate/generate.h"

namespace echelon {

/// The most likely continuation of each prompt by beam search, with the rules of transformers'
/// generate(num_beams, early_stopping=False): of the 2 * beams best candidates of a step, those that end
/// count when they are among the first `beams`; a prompt is done when its best running beam scores below its
/// worst finished one.
[[nodiscard]] std::vector<std::vector<std::int64_t>> beam_search(Decoder& decoder, std::int64_t prompts,
                                                                 const GenerateOptions& options,
                                                                 const AnyUnfinished& any_unfinished);

}  // namespace echelon
