#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace echelon {
namespace {

/// A position in a phase of the curve: `done` of its `length` steps are complete, 0 <= done <= length.
struct Phase {
  double done = 0;
  double length = 0;
  [[nodiscard]] double fraction() const { return length > 0 ? done / length : 1.0; }
};

double line(double from, double to, const Phase& phase) {
  return from + (to - from) * phase.fraction();
}

double cosine(double from, double to, const Phase& phase) {
  return to + (from - to) * 0.5 * (1.0 + std::cos(std::numbers::pi * phase.fraction()));
}

double step_size(const ScheduleOptions& schedule) {
  return static_cast<double>(schedule.step_size);
}

/// The rate after `stretches` periods of constant rate. 1e-9 is added because a division that should give an
/// integer may round below it.
double falls(double from, const ScheduleOptions& schedule, double stretches) {
  return from * std::pow(schedule.gamma, std::floor(stretches + 1e-9));
}

double warmup(const OptimOptions& optim, const ScheduleOptions& schedule, const Phase& phase) {
  return line(optim.lr * schedule.warmup_start_factor, optim.lr, phase);
}

/// The rate within a phase that started at `reached`.
double rate_in(ScheduleKind kind, const OptimOptions& optim, const ScheduleOptions& schedule, double reached,
               const Phase& phase) {
  switch (kind) {
    case ScheduleKind::kConstant: return reached;
    case ScheduleKind::kLinearWarmup: return warmup(optim, schedule, phase);
    case ScheduleKind::kCosine: return cosine(reached, schedule.min_lr, phase);
    case ScheduleKind::kLinearDecay: return line(reached, schedule.min_lr, phase);
    case ScheduleKind::kStep: return falls(reached, schedule, phase.done / step_size(schedule));
    case ScheduleKind::kWarmupCosine:
    case ScheduleKind::kWarmupStableDecay:
    case ScheduleKind::kSequence: break;
  }
  throw Error::internal("schedule.sequence: ", word_of(kind), " is not a kind of phase");
}

double in_sequence(const OptimOptions& optim, const ScheduleOptions& schedule, std::int64_t done,
                   std::int64_t steps) {
  double reached = optim.lr;
  std::int64_t begin = 0;
  for (const SchedulePhase& phase : schedule.sequence) {
    const std::int64_t length = phase.steps == 0 ? std::max<std::int64_t>(steps - begin, 0) : phase.steps;
    const auto whole = static_cast<double>(length);
    if (done < begin + length) {
      return rate_in(phase.kind, optim, schedule, reached, {static_cast<double>(done - begin), whole});
    }
    reached = rate_in(phase.kind, optim, schedule, reached, {whole, whole});
    begin += length;
  }
  return reached;
}

}  // namespace

double learning_rate(const OptimOptions& optim, const ScheduleOptions& schedule, std::int64_t step,
                     std::int64_t steps, double epochs) {
  const auto done = static_cast<double>(step - 1);
  const auto whole = static_cast<double>(steps);
  const auto rise = static_cast<double>(schedule.warmup_steps);
  const auto fall = static_cast<double>(schedule.decay_steps);
  const bool rising = done < rise;
  switch (schedule.kind) {
    case ScheduleKind::kConstant: return optim.lr;
    case ScheduleKind::kLinearWarmup: return rising ? warmup(optim, schedule, {done, rise}) : optim.lr;
    case ScheduleKind::kStep: {
      const auto between = static_cast<double>(schedule.step_epochs);
      return falls(optim.lr, schedule, between > 0 ? epochs / between : done / step_size(schedule));
    }
    case ScheduleKind::kCosine: return cosine(optim.lr, schedule.min_lr, {done, whole});
    case ScheduleKind::kWarmupCosine:
      return rising ? warmup(optim, schedule, {done, rise})
                    : cosine(optim.lr, schedule.min_lr, {done - rise, whole - rise});
    case ScheduleKind::kWarmupStableDecay:
      if (rising) return warmup(optim, schedule, {done, rise});
      return done < whole - fall ? optim.lr : line(optim.lr, schedule.min_lr, {done - (whole - fall), fall});
    case ScheduleKind::kSequence: return in_sequence(optim, schedule, step - 1, steps);
    case ScheduleKind::kLinearDecay: break;
  }
  throw Error::internal("schedule.kind: ", word_of(schedule.kind), " is a kind of phase only");
}

}  // namespace echelon
