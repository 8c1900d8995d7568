#include "comm/activity.h"

#include <algorithm>
#include <cstring>

#include "base/mutex.h"
#include "base/number.h"
#include "base/steady_time.h"
#include "base/str.h"

namespace echelon {
namespace {

std::string_view name_of(Doing doing) {
  switch (doing) {
    case Doing::kStarting:
      return "starting";
    case Doing::kReadingData:
      return "reading data";
    case Doing::kForward:
      return "forward";
    case Doing::kBackward:
      return "backward";
    case Doing::kUpdating:
      return "updating weights";
    case Doing::kValidating:
      return "validating";
    case Doing::kGenerating:
      return "generating";
    case Doing::kEvaluating:
      return "evaluating";
    case Doing::kSaving:
      return "saving";
    case Doing::kLeaving:
      return "leaving";
  }
  return "?";
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
  const std::size_t length = std::min(unit.size(), sizeof(now_.unit) - 1);
  std::memcpy(now_.unit, unit.data(), length);
  now_.unit[length] = '\0';
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
  if (log) logs_.push_back(std::move(log));
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
