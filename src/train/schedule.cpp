#include "train/schedule.h"

#include <cmath>
#include <numbers>

namespace echelon {

double learning_rate(const OptimOptions& optim, const ScheduleOptions& schedule, std::int64_t step,
                     std::int64_t steps) {
  const double done = static_cast<double>(step - 1);
  const double warmup = static_cast<double>(schedule.warmup_steps);
  if (schedule.kind == "constant") return optim.lr;
  if (done < warmup) {
    return optim.lr * (schedule.warmup_start_factor + (1.0 - schedule.warmup_start_factor) * done / warmup);
  }
  const double fraction = (done - warmup) / (static_cast<double>(steps) - warmup);
  return schedule.min_lr + (optim.lr - schedule.min_lr) * 0.5 * (1.0 + std::cos(std::numbers::pi * fraction));
}

}  // namespace echelon
