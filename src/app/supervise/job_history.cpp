#include "app/supervise/job_history.h"

#include <algorithm>
#include <utility>

namespace echelon::supervise {

using Kind = StartNote::Kind;

int fruitless_starts(const std::vector<StartNote>& notes, std::int64_t committed_step) {
  int count = 0;
  for (const StartNote& note : notes) {
    const bool begins = note.kind == Kind::kStart && !note.in_place;
    if (begins) count = note.step == committed_step ? count + 1 : 0;
    if (note.kind == Kind::kHeld) count = 0;
  }
  return count;
}

FailuresAtStep failures_at_step(const std::vector<StartNote>& notes) {
  std::vector<StartNote> row;
  std::int64_t checkpoint = 0;
  std::pair<bool, std::int64_t> place;  // whether the step is known, and it, or else the checkpoint's
  for (const StartNote& note : notes) {
    if (note.kind == Kind::kStart) checkpoint = note.step;
    if (note.kind != Kind::kLost) continue;
    const std::pair now{note.step > 0, note.step > 0 ? note.step : checkpoint};
    if (now != place) row.clear();
    place = now;
    row.push_back(note);
  }
  FailuresAtStep failures{.all = static_cast<int>(row.size())};
  if (row.empty() || row.back().rank < 0) return failures;
  failures.of_same = static_cast<int>(std::ranges::count_if(row, [&](const StartNote& note) {
    return note.rank == row.back().rank || note.node == row.back().node;
  }));
  return failures;
}

Nodes left_out_before(const std::vector<StartNote>& notes) {
  Nodes nodes;
  for (const StartNote& note : notes) {
    if (note.kind == Kind::kLeftOut) nodes.push_back(note.node);
  }
  return nodes;
}

}  // namespace echelon::supervise
