#pragma once
#include <optional>
#include <string>
#include <vector>

#include "app/doctor/finding.h"
#include "base/process/slurm_text.h"

namespace echelon::app::doctor {

struct SlurmState {
  SlurmRecord settings;                  ///< scontrol show config
  std::vector<SlurmRecord> partitions;   ///< scontrol --oneliner show partition
  std::vector<SlurmRecord> nodes;        ///< scontrol --oneliner show nodes
  std::optional<std::string> mpi_types;  ///< srun --mpi=list; nothing if srun fails
};

/// Runs Slurm's commands, each for at most `deadline_s` seconds. Fills `state` if Slurm answers. Returns the
/// finding about Slurm itself.
[[nodiscard]] Finding ask_slurm(double deadline_s, std::optional<SlurmState>& state);

}  // namespace echelon::app::doctor
