#pragma once
#include <ATen/core/Tensor.h>

#include "model/generate/options.h"

namespace echelon {

/// A token drawn from logits [vocabulary], on the host: temperature, then the top_k likeliest, then the
/// fewest likeliest of those with at least a share of top_p (Holtzman et al., nucleus sampling). Depends on
/// the logits, options.seed, the prompt's number and the place of the token in its continuation only.
[[nodiscard]] std::int64_t draw(const at::Tensor& logits, const GenerateOptions& options, std::int64_t prompt,
                                std::int64_t place);

}  // namespace echelon
