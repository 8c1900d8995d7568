#pragma once
#include <cstdint>

#include "train/options.h"

namespace echelon {

/// Learning rate of optimizer step `step` (1-based) of `steps`. warmup_cosine equals PyTorch's SequentialLR
/// of LinearLR(warmup_start_factor -> 1 over warmup_steps) and CosineAnnealingLR(down to min_lr over the
/// rest).
[[nodiscard]] double learning_rate(const OptimOptions& optim, const ScheduleOptions& schedule,
                                   std::int64_t step, std::int64_t steps);

}  // namespace echelon
