#include "comm/activity.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/number.h"
#include "base/str.h"

namespace echelon {
namespace {

/// `doing` may have come from another rank, with any value.
std::string_view name_of(Doing doing) {
  constexpr std::array<std::string_view, 11> kNames{
      "starting",   "reading data", "forward", "backward", "updating weights", "validating", "generating",
      "evaluating", "saving",       "leaving", "?"};
  return kNames[std::min(static_cast<std::size_t>(doing), kNames.size() - 1)];
}

}  // namespace

void Activity::begin_step(std::int64_t step) {
  const Lock lock(mutex_);
  now_.step = step;
}

void Activity::end_step(double work_s) {
  const Lock lock(mutex_);
  ++now_.steps;
  now_.work_s += work_s;
}

void Activity::enter(Doing doing, std::string_view unit) {
  const Lock lock(mutex_);
  now_.doing = doing;
  now_.unit[unit.copy(now_.unit, sizeof(now_.unit) - 1)] = '\0';
  entered_ = Clock::now();
}

void Activity::issued(const Operation& operation) {
  const Lock lock(mutex_);
  if (now_.issued == now_.done) under_way_since_ = Clock::now();
  now_.newest = operation;
  ++now_.issued;
}

void Activity::done() {
  const Lock lock(mutex_);
  ++now_.done;
  under_way_since_ = Clock::now();  // the next one starts now: operations run one after the other
}

Activity::Now Activity::now() const {
  const Lock lock(mutex_);
  Now now = now_;
  now.for_s = seconds_since(entered_);
  now.under_way_s = now.issued > now.done ? seconds_since(under_way_since_) : 0;
  return now;
}

void Activity::record(std::shared_ptr<SpanLog> log) {
  const Lock lock(mutex_);
  spans_.store(log.get(), std::memory_order_release);
  if (log && (logs_.empty() || logs_.back() != log)) logs_.push_back(std::move(log));
}

std::string describe(const Activity::Now& now) {
  std::string text = now.step > 0 ? str("in step ", now.step, ", ") : "";
  text += name_of(now.doing);
  const std::string unit(now.unit, strnlen(now.unit, sizeof(now.unit)));
  const bool computes = now.doing == Doing::kForward || now.doing == Doing::kBackward;
  if (!unit.empty()) text += str(computes ? " of unit '" : " '", unit, "'");
  text += str(" for ", rounded(now.for_s, 1), " s");
  if (now.issued == 0) return text;
  return str(text, now.issued > now.done ? ", waiting for or beside collective #" : ", after collective #",
             now.newest.sequence, " ", describe(now.newest));
}

}  // namespace echelon
