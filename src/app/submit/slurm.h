#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

/// Slurm's own commands, started as they are, without a shell.
namespace echelon::submit {

/// Throws Error(kEnvironment) where sbatch or another command of Slurm's that submitting needs is not in
/// PATH.
void require_slurm();

/// Hands a script to sbatch and returns the job's number. Throws Error with what Slurm said in one line and
/// what helps: kUsage for what can be asked otherwise (partition, time, size ...), else kEnvironment.
[[nodiscard]] std::string submit_script(const std::filesystem::path& script,
                                        const std::vector<std::string>& without);

/// sbatch --test-only: what it says about when and where the job would start. Throws as submit_script() does.
[[nodiscard]] std::string test_script(const std::filesystem::path& script,
                                      const std::vector<std::string>& without);

/// What sbatch's messages mean for the user; never throws.
[[nodiscard]] Error refusal(const std::string& messages);

}  // namespace echelon::submit
