#pragma once
#include "data/loader.h"
#include "model/batch.h"

namespace echelon {

/// Converts samples to tensors on `device`. Copies; `samples` may be freed afterwards. `dpo_beta`: of
/// preferences.
[[nodiscard]] Batch to_tensors(const SampleBatch& samples, at::Device device, double dpo_beta = 0);

/// Number of targets that are not ignored (>= 0); of preferences the number of such pairs.
[[nodiscard]] std::int64_t counted_targets(const SampleBatch& samples);

/// Marks all targets of samples with a global number >= `end` as ignored (-1).
void ignore_from(SampleBatch& samples, std::int64_t end);

}  // namespace echelon
