#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

/// Calls of Slurm's commands, without a shell.
namespace echelon::submit {

/// Throws Error(kEnvironment) if sbatch or another Slurm command that submitting needs is not in PATH.
void require_slurm();

/// Submits a script with sbatch and returns the job number. `without`: environment variables to hide from
/// sbatch. Throws Error with Slurm's message in one line and advice: kUsage if another request could succeed
/// (partition, time, size ...), else kEnvironment.
[[nodiscard]] std::string submit_script(const std::filesystem::path& script,
                                        const std::vector<std::string>& without);

/// Runs sbatch --test-only. Returns its message about when and where the job would start. Throws as
/// submit_script() does.
[[nodiscard]] std::string test_script(const std::filesystem::path& script,
                                      const std::vector<std::string>& without);

/// Turns sbatch's messages into an Error with advice. Does not throw.
[[nodiscard]] Error refusal(const std::string& messages);

}  // namespace echelon::submit
