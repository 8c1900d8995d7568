#pragma once
#include "app/engine/engine.h"

namespace echelon::app {

/// Micro-batches of a step that are rehearsed: the first, one in between, and the last.
inline constexpr std::int64_t kPasses = 3;

/// Carries out training steps of one rank on the bookkeeping device: the engine's own code, with tensors that
/// have no contents. Throws Error(kUsage) for a recipe that does not fit the job. Files of data are not
/// opened: every sample is as long as the recipe allows.
[[nodiscard]] forecast::Rehearsed rehearse(const RehearseRequest& request);

}  // namespace echelon::app
