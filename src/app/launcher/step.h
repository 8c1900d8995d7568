#pragma once
#include <functional>

namespace echelon::app {

/// Runs `body`, which does the same in every rank of a step: one of them tells of its Error, the others throw
/// it without a text.
void once_per_step(const std::function<void()>& body);

/// Local ranks to start for the option --ranks (0: not given); 0 in a rank of an srun or mpirun step, whose
/// tasks are the ranks. Throws Error(kUsage) for --ranks inside such a step.
[[nodiscard]] int local_ranks(int option);

}  // namespace echelon::app
