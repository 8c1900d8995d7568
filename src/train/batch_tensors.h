#pragma once
#include "data/loader.h"
#include "model/batch.h"
#include "shapes/options.h"

namespace echelon {

/// Converts samples to tensors on `device`. Copies; `samples` may be freed afterwards.
[[nodiscard]] Batch to_tensors(const SampleBatch& samples, at::Device device);

/// The input that a model of these options expects.
[[nodiscard]] ModelInput input_of(const ModelOptions& options);

/// Number of targets that are not ignored (>= 0).
[[nodiscard]] std::int64_t counted_targets(const SampleBatch& samples);

/// Marks all targets of samples with a global number >= `end` as ignored (-1).
void ignore_from(SampleBatch& samples, std::int64_t end);

}  // namespace echelon
