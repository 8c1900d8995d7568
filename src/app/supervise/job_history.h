#pragma once
#include <cstdint>
#include <vector>

#include "app/supervise/nodes.h"
#include "run/start_notes.h"

/// What the notes of a job (run/start_notes.h) say of its starts. Pure.
namespace echelon::supervise {

/// Starts of the job in a row, up to the newest one, that ended at the step they began with. Restarts in
/// place are part of the start before them. A hold begins a new row. `committed_step`: of the newest
/// checkpoint.
[[nodiscard]] int fruitless_starts(const std::vector<StartNote>& notes, std::int64_t committed_step);

/// Failures in a row at the step of the newest failure. Failures at an unknown step are in a row while starts
/// begin with the same checkpoint.
struct FailuresAtStep {
  int all = 0;
  int of_same = 0;  ///< those whose rank or node is that of the newest one; 0: it named no rank
};
[[nodiscard]] FailuresAtStep failures_at_step(const std::vector<StartNote>& notes);

/// The nodes that the job has left out because they were suspects, not because its user wants that.
[[nodiscard]] Nodes left_out_before(const std::vector<StartNote>& notes);

}  // namespace echelon::supervise
