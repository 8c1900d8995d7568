#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/doctor/finding.h"
#include "app/doctor/machine/machine.h"

/// Checks of the Slurm settings that a run depends on.
namespace echelon::app::doctor {

/// The request of a job.
struct JobWish {
  std::string partition;  ///< empty: the default partition
  int nodes = 0;          ///< 0: not given
  int tasks_per_node = 0;
  std::optional<std::int64_t> time_s;
};

/// The predicted duration of writing one checkpoint.
struct SavePrediction {
  double seconds = 0;
  std::string how;  ///< "12.1 GiB from each of 2 nodes at 1.3 GB/s"
};

/// Runs Slurm's commands, each for at most `deadline_s` seconds, and judges what they print. Only the finding
/// about Slurm itself if it does not answer. Without `save` nothing is compared with the time of a save.
[[nodiscard]] std::vector<Finding> check_slurm(double deadline_s, const Machine& machine, const JobWish& wish,
                                               const std::optional<SavePrediction>& save);

}  // namespace echelon::app::doctor
