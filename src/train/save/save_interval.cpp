#include "train/save/save_interval.h"

#include <algorithm>
#include <cmath>

namespace echelon {
namespace {

/// The first save is early: it measures the cost, and shows that saves work.
constexpr double kUnmeasured_s = 60;
constexpr double kShortest_s = 10;

}  // namespace

std::int64_t next_due(std::int64_t every, std::int64_t step) {
  return (step / every + 1) * every;
}

bool saves_beside_training(const CheckpointOptions& options, std::int64_t step, std::int64_t last_step) {
  const auto comes = [&](std::int64_t every) { return every > 0 && next_due(every, step) < last_step; };
  if (comes(options.memory_every_steps)) return true;
  return options.async && (comes(options.every_steps) || options.every_minutes > 0 || options.auto_interval ||
                           options.keep_best);
}

SaveInterval::SaveInterval(const CheckpointOptions& options) : options_(options) {}

std::optional<double> SaveInterval::seconds() const {
  std::optional<double> interval;
  if (options_.every_minutes > 0) interval = 60 * options_.every_minutes;
  if (!options_.auto_interval) return interval;
  const double automatic =
      stall_s_ ? std::max({kShortest_s, total_s_,
                           std::sqrt(2 * *stall_s_ * options_.mean_time_to_failure_hours * 3600)})
               : kUnmeasured_s;
  return std::min(interval.value_or(automatic), automatic);
}

bool SaveInterval::due(double now_s) const {
  const auto interval = seconds();
  return interval && now_s - last_s_ >= *interval;
}

void SaveInterval::saved(double began_s, double stall_s, double total_s) {
  last_s_ = std::max(last_s_, began_s);
  stall_s_ = stall_s;
  total_s_ = total_s;
}

}  // namespace echelon
