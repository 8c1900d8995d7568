#pragma once
#include <string>
#include <vector>

#include "base/steady_time.h"
#include "comm/activity.h"

namespace echelon {

/// The passes of units that are under way on the thread that trains, for a profile. Recorded spans nest: the
/// end of a pass ends those that began after it. Without a profile a call is one comparison.
class UnitFrames {
 public:
  explicit UnitFrames(const Activity& activity) : activity_(activity) {}

  void begin(SpanKind kind, const std::string& unit) {
    if (activity_.spans() != nullptr) open_.push_back({kind, &unit, steady_now_s()});
  }
  /// Does nothing if that pass ended with one around it.
  void end(SpanKind kind, const std::string& unit) {
    for (std::size_t i = open_.size(); i-- > 0;) {
      if (open_[i].kind == kind && open_[i].unit == &unit) return close_from(i);
    }
  }
  /// The unit of the innermost pass; null: none is under way.
  [[nodiscard]] const std::string* innermost() const { return open_.empty() ? nullptr : open_.back().unit; }
  void end_all() {
    if (!open_.empty()) close_from(0);
  }

 private:
  struct Frame {
    SpanKind kind;
    const std::string* unit;  ///< of the plan, which outlives this object
    double began_s;
  };
  void close_from(std::size_t outermost) {
    const double now_s = steady_now_s();
    SpanLog* log = activity_.spans();
    while (open_.size() > outermost) {
      const Frame& frame = open_.back();
      if (log != nullptr) log->add(frame.kind, *frame.unit, frame.began_s, now_s);
      open_.pop_back();
    }
  }

  const Activity& activity_;
  std::vector<Frame> open_;
};

}  // namespace echelon
