#include "optim/schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <sstream>

#include "base/error.h"
#include "base/str.h"

namespace echelon {
namespace {

/// A piece of the curve: `done` of its `length` steps are over, 0 <= done <= length.
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

/// After `stretches` of constant rate; a little more than measured, as the division rounds.
double falls(double from, const ScheduleOptions& schedule, double stretches) {
  return from * std::pow(schedule.gamma, std::floor(stretches + 1e-9));
}

double warmup(const OptimOptions& optim, const ScheduleOptions& schedule, const Phase& phase) {
  return line(optim.lr * schedule.warmup_start_factor, optim.lr, phase);
}

struct Entry {
  std::string kind;
  std::int64_t steps = -1;  ///< -1: to the end of the run
};

Entry parse_entry(const std::string& text, bool last) {
  const auto refuse = [&](const std::string& what) {
    throw Error(
        Code::kUsage,
        str("schedule.sequence: '", text, "' ", what, "; expected \"<kind> <steps>\" with a kind of ",
            "constant, linear_warmup, cosine, linear_decay, step; the last one may go without steps"));
  };
  std::istringstream words(text);
  Entry entry;
  std::string number;
  std::string rest;
  words >> entry.kind >> number >> rest;
  if (!rest.empty()) refuse("has more than two words");
  if (number.empty()) {
    if (!last) refuse("is not the last entry and has no number of steps");
    return entry;
  }
  const char* end = number.data() + number.size();
  const auto [stop, failure] = std::from_chars(number.data(), end, entry.steps);
  if (failure != std::errc() || stop != end || entry.steps < 1)
    refuse("has no whole number of steps above 0");
  return entry;
}

/// The entry's rate, having started at `reached`.
double rate_in(const Entry& entry, const OptimOptions& optim, const ScheduleOptions& schedule, double reached,
               const Phase& phase) {
  if (entry.kind == "constant") return reached;
  if (entry.kind == "linear_warmup") return warmup(optim, schedule, phase);
  if (entry.kind == "cosine") return cosine(reached, schedule.min_lr, phase);
  if (entry.kind == "linear_decay") return line(reached, schedule.min_lr, phase);
  if (entry.kind == "step") return falls(reached, schedule, phase.done / step_size(schedule));
  throw Error(Code::kUsage, str("schedule.sequence: kind '", entry.kind,
                                "' is unknown; known: constant, linear_warmup, cosine, linear_decay, step"));
}

double in_sequence(const OptimOptions& optim, const ScheduleOptions& schedule, std::int64_t done,
                   std::int64_t steps) {
  double reached = optim.lr;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < schedule.sequence.size(); ++i) {
    const Entry entry = parse_entry(schedule.sequence[i], i + 1 == schedule.sequence.size());
    const std::int64_t length = entry.steps < 0 ? std::max<std::int64_t>(steps - begin, 0) : entry.steps;
    const auto whole = static_cast<double>(length);
    if (done < begin + length) {
      return rate_in(entry, optim, schedule, reached, {static_cast<double>(done - begin), whole});
    }
    reached = rate_in(entry, optim, schedule, reached, {whole, whole});
    begin += length;
  }
  return reached;
}

}  // namespace

double learning_rate(const OptimOptions& optim, const ScheduleOptions& schedule, std::int64_t step,
                     std::int64_t steps, double epoch_steps) {
  const auto done = static_cast<double>(step - 1);
  const auto whole = static_cast<double>(steps);
  const auto rise = static_cast<double>(schedule.warmup_steps);
  const auto fall = static_cast<double>(schedule.decay_steps);
  const bool rising = done < rise;
  if (schedule.kind == "constant") return optim.lr;
  if (schedule.kind == "linear_warmup") return rising ? warmup(optim, schedule, {done, rise}) : optim.lr;
  if (schedule.kind == "step" && schedule.step_epochs > 0) {
    return falls(optim.lr, schedule, done / (static_cast<double>(schedule.step_epochs) * epoch_steps));
  }
  if (schedule.kind == "step") return falls(optim.lr, schedule, done / step_size(schedule));
  if (schedule.kind == "cosine") return cosine(optim.lr, schedule.min_lr, {done, whole});
  if (schedule.kind == "warmup_cosine") {
    return rising ? warmup(optim, schedule, {done, rise})
                  : cosine(optim.lr, schedule.min_lr, {done - rise, whole - rise});
  }
  if (schedule.kind == "warmup_stable_decay") {
    if (rising) return warmup(optim, schedule, {done, rise});
    return done < whole - fall ? optim.lr : line(optim.lr, schedule.min_lr, {done - (whole - fall), fall});
  }
  if (schedule.kind == "sequence") return in_sequence(optim, schedule, step - 1, steps);
  throw Error(Code::kUsage,
              str("schedule.kind '", schedule.kind, "' is unknown; known: constant, linear_warmup, step, ",
                  "cosine, warmup_cosine, warmup_stable_decay, sequence"));
}

}  // namespace echelon
