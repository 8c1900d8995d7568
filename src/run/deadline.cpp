#include "run/deadline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "base/utc_time.h"

namespace echelon {
namespace {

constexpr std::size_t kRemembered = 20;
constexpr std::size_t kRecentSaves = 3;  // and validations
constexpr double kMostAboveMedian = 3;
constexpr double kForEver_s = std::numeric_limits<double>::infinity();

/// The longest of the last `count`.
std::optional<double> longest(const std::deque<double>& times, std::size_t count) {
  if (times.empty()) return std::nullopt;
  const auto last = static_cast<std::ptrdiff_t>(std::min(count, times.size()));
  return *std::max_element(times.end() - last, times.end());
}

std::optional<double> step_forecast(const std::deque<double>& times) {
  if (times.empty()) return std::nullopt;
  std::vector<double> sorted(times.begin(), times.end());
  std::ranges::sort(sorted);
  // The longest recent step, unless it is an outlier: one hiccup must not stop the run early.
  return std::min(sorted.back(), kMostAboveMedian * sorted[(sorted.size() - 1) / 2]);
}

/// "a, b and c".
std::string listed(const std::vector<std::string>& parts) {
  const std::vector<std::string> first(parts.begin(), parts.end() - 1);
  return first.empty() ? parts.back() : join(first, ", ") + " and " + parts.back();
}

}  // namespace

std::string describe_seconds(double seconds) {
  if (seconds < 0.995) return str(std::round(seconds * 100) / 100, " s");
  return seconds < 9.95 ? str(std::round(seconds * 10) / 10, " s") : str(std::llround(seconds), " s");
}

void Deadline::note(Times& times, double seconds) {
  times.push_back(std::max(0.0, seconds));
  if (times.size() > kRemembered) times.pop_front();
}

Durations Deadline::expected() const {
  Durations expected{.step = step_forecast(steps_),
                     .save = longest(saves_, kRecentSaves),
                     .validation = longest(validations_, kRecentSaves)};
  if (!expected.step) expected.step = setting_.earlier.step;
  if (!expected.save) expected.save = setting_.earlier.save;
  if (!expected.validation) expected.validation = setting_.earlier.validation;
  return expected;
}

double Deadline::save_s() const {
  return expected().save.value_or(setting_.assumed_save_s);
}

std::optional<double> Deadline::end_s() const {
  const double end = std::min(setting_.job_end_s.value_or(kForEver_s),
                              setting_.capacity_end_s.value_or(kForEver_s) - kTakenBack_s);
  return std::isfinite(end) ? std::optional(end) : std::nullopt;
}

double Deadline::left_s() const {
  const auto end = end_s();
  return end ? *end - setting_.now_s() : kForEver_s;
}

std::string Deadline::describe() const {
  const auto end = end_s();
  if (!end) return "";
  const double now = setting_.now_s();
  const bool block = *end < setting_.job_end_s.value_or(kForEver_s);
  const std::string when =
      *end >= now ? str("in ", describe_seconds(*end - now)) : str(describe_seconds(now - *end), " ago");
  return str(block ? "the nodes of the capacity block are taken back at " : "the job ends at ",
             describe_utc(*end, now), ", ", when);
}

bool Deadline::fits_after_all(double needed_s) {
  if (!setting_.ask_job_end || !setting_.job_end_s) return false;
  const auto asked = setting_.ask_job_end();
  if (!asked || *asked == *setting_.job_end_s) return false;
  setting_.job_end_s = asked;
  const std::string now_known = describe();
  log::info(str("the end of the job changed: ", now_known.empty() ? "there is none now" : now_known));
  return needed_s <= left_s();
}

std::string Deadline::reason_to_stop(const Ahead& ahead) {
  if (!end_s()) return "";
  const Durations take = expected();
  const double step_s = ahead.step ? take.step.value_or(0) : 0;
  const double validation_s = ahead.validation ? take.validation.value_or(0) : 0;
  const double needed_s =
      // A save in progress runs beside the step, so only the longer of the two counts.
      validation_s + ahead.before_s + std::max(step_s, ahead.beside_s) + save_s() + setting_.margin_s;
  if (needed_s <= left_s() || fits_after_all(needed_s)) return "";
  std::vector<std::string> parts;
  if (validation_s > 0) parts.push_back(str("a validation (", describe_seconds(validation_s), ")"));
  if (ahead.before_s > 0)
    parts.push_back(str("the save that is due (", describe_seconds(ahead.before_s), ")"));
  if (ahead.beside_s > step_s) {
    parts.push_back(str("the save under way (", describe_seconds(ahead.beside_s), ")"));
  } else if (ahead.step) {
    parts.push_back(str("one more step (", describe_seconds(step_s), ")"));
  }
  parts.push_back(str("a save (", describe_seconds(save_s()), ")"));
  parts.push_back(str("a margin of ", describe_seconds(setting_.margin_s)));
  return str(describe(), "; ", listed(parts), " do not fit before then");
}

void Deadline::require_room() {
  if (setting_.capacity_end_s && *setting_.capacity_end_s - kTakenBack_s <= setting_.now_s()) {
    throw Error(Code::kUsage,
                "cluster.capacity_block_end: ", describe_utc(*setting_.capacity_end_s, setting_.now_s()),
                "; AWS takes the nodes of a block back 30 minutes before its end, and that time has passed; "
                "set the end of the block that this job runs in, or remove the key");
  }
  const Durations& take = setting_.earlier;
  if (!end_s() || !take.step || !take.save) return;
  const double needed_s = *take.step + *take.save + setting_.margin_s;
  if (needed_s <= left_s() || fits_after_all(needed_s)) return;
  throw Error(Code::kUsage, describe(), ": too soon for one step (", describe_seconds(*take.step),
              "), a save (", describe_seconds(*take.save), ") and a margin of ",
              describe_seconds(setting_.margin_s),
              ", as measured in earlier starts. No step was trained, and starting again would not help: "
              "give the job more time (--time), or lower cluster.stop_margin_s");
}

std::string Deadline::grace_warning() const {
  if (!setting_.grace_s || *setting_.grace_s >= save_s()) return "";
  return str("a save takes about ", describe_seconds(save_s()), ", and Slurm may kill the job ",
             describe_seconds(*setting_.grace_s),
             " after the signal (KillWait): the save is attempted anyway; an unfinished one is never used");
}

}  // namespace echelon
