#pragma once
#include <cstdint>

#include "optim/options.h"

namespace echelon {

/// Learning rate of optimizer step `step` (1-based) of `steps`, before which the data were passed over
/// `epochs` times, which need not be whole. A pure function, so a resumed run needs no state. The kinds equal
/// PyTorch's schedulers:
///   constant             optim.lr
///   linear_warmup        LinearLR(warmup_start_factor -> 1 over warmup_steps), then optim.lr
///   step                 StepLR(step_size, gamma), or every step_epochs epochs
///   cosine               CosineAnnealingLR over the run, down to min_lr
///   warmup_cosine        SequentialLR of linear_warmup and the cosine over the rest
///   warmup_stable_decay  linear_warmup, constant, then linearly down to min_lr over the last decay_steps
///   sequence             entries "<kind> <steps>" one after another, of the kinds constant, linear_warmup,
///                        cosine, linear_decay and step. linear_warmup rises to optim.lr; all others start at
///                        the rate that the entry before has reached (its curve's value at its length; the
///                        first: optim.lr), cosine and linear_decay end at min_lr. The last entry lasts to
///                        the end of the run when it has no number; after a last one with a number the rate
///                        stays.
/// As in PyTorch, a decay over n steps reaches min_lr only after its n-th step. Throws Error(kUsage) for
/// linear_decay outside a sequence, and for a kind that a sequence may not contain.
[[nodiscard]] double learning_rate(const OptimOptions& optim, const ScheduleOptions& schedule,
                                   std::int64_t step, std::int64_t steps, double epochs = 0);

}  // namespace echelon
