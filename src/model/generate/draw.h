#pragma once
#include <ATen/core/Tensor.h>

#include "model/generate/options.h"

namespace echelon {

/// Samples a token from logits [vocabulary], on the host: temperature, then the top_k most likely, then the
/// smallest set of those with total probability top_p (Holtzman et al., nucleus sampling). Depends on the
/// logits, options.seed, the prompt's number and the place of the token in its continuation only.
[[nodiscard]] std::int64_t draw(const at::Tensor& logits, const GenerateOptions& options, std::int64_t prompt,
                                std::int64_t place);

}  // namespace echelon
