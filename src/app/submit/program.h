#pragma once
#include <string>
#include <vector>

#include "base/process/program.h"

namespace echelon::submit {

/// Runs a program found in PATH to its end, at most 300 s. It sees this process's environment without the
/// variables in `without` and without those that describe a job this process may itself be in (SLURM_JOB_ID
/// ...). Throws Error(kEnvironment): no such program, it does not end, it prints more than 4 MiB.
[[nodiscard]] ProgramRun run_command(const std::vector<std::string>& command,
                                     const std::vector<std::string>& without = {});

}  // namespace echelon::submit
