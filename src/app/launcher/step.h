#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace echelon::app {

/// Runs `body`, which behaves the same in every rank of a step. If it throws Error, the first rank rethrows
/// it; the others wait a moment and throw it without text, as already reported.
void once_per_step(const std::function<void()>& body);

/// Number of local ranks to start for the option --ranks (`option`; 0: not given). Returns 0 inside an srun
/// or mpirun step, whose tasks are the ranks. Throws Error(kUsage) for --ranks inside such a step.
[[nodiscard]] int local_ranks(int option);

/// The command line of one local rank of `command`, which this process runs: as it was given, without
/// --ranks.
[[nodiscard]] std::vector<std::string> command_of_one_rank(const CLI::App& command);

}  // namespace echelon::app
