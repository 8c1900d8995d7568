#pragma once
#include <cstdint>
#include <optional>

#include "model/options.h"

namespace echelon::recipe {

/// Number of parameters of the model, a weight that is used twice counted once; nothing when it does not fit
/// in 64 bits. For options whose sizes divide as find_model_conflicts() asks.
[[nodiscard]] std::optional<std::int64_t> parameter_count(const ModelOptions& model);

}  // namespace echelon::recipe
