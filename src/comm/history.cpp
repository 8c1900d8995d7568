#include "comm/history.h"

#include <algorithm>

#include "base/number.h"
#include "base/str.h"

namespace echelon {

void History::issued(const Operation& operation) {
  if (activity_) activity_->issued(operation);
  const Lock lock(mutex_);
  ring_[operation.sequence % kLength] = {.operation = operation, .issued_s = steady_now_s()};
  count_ = operation.sequence + 1;
}

void History::done(std::uint64_t sequence) {
  if (activity_) activity_->done();
  const Lock lock(mutex_);
  Entry& entry = ring_[sequence % kLength];
  if (entry.operation.sequence != sequence) return;  // already overwritten by a newer one
  entry.done_s = steady_now_s();
}

std::vector<std::string> History::recent() const {
  const Lock lock(mutex_);
  const auto seconds = [this](double time_s) { return fixed(time_s - began_s_, 3) + " s"; };
  std::vector<std::string> lines;
  for (std::uint64_t n = count_ - std::min<std::uint64_t>(count_, kLength); n < count_; ++n) {
    const Entry& entry = ring_[n % kLength];
    lines.push_back(str("#", n, " ", describe(entry.operation), ", issued ", seconds(entry.issued_s),
                        entry.done_s ? ", done " + seconds(*entry.done_s) : ", not done"));
  }
  return lines;
}

}  // namespace echelon
