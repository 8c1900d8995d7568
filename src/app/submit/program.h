#pragma once
#include <string>
#include <vector>

#include "base/process/program.h"

namespace echelon::submit {

/// Runs a program from PATH to its end, for at most 300 s. Its environment is that of this process without
/// the variables in `without`, and without those that describe a job this process may run in (SLURM_JOB_ID
/// ...). Throws Error(kEnvironment) if there is no such program, it does not end in time, or it prints more
/// than 4 MiB.
[[nodiscard]] ProgramRun run_command(const std::vector<std::string>& command,
                                     const std::vector<std::string>& without = {});

}  // namespace echelon::submit
