#pragma once
#include "data/loader.h"
#include "model/batch.h"
#include "shapes/options.h"

namespace echelon {

/// Samples as a model takes them, on `device`.
[[nodiscard]] Batch to_tensors(const SampleBatch& samples, at::Device device);

/// What a model of these options takes.
[[nodiscard]] ModelInput input_of(const ModelOptions& options);

/// Predictions of `samples` that count.
[[nodiscard]] std::int64_t counted_targets(const SampleBatch& samples);

/// No prediction of samples from global number `end` on counts any more.
void ignore_from(SampleBatch& samples, std::int64_t end);

}  // namespace echelon
