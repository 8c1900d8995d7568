#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "app/submit/options.h"
#include "recipe/recipe.h"

namespace echelon::submit {

/// The sizes and times of a job, checked against each other and the recipe.
struct Allocation {
  std::int64_t nodes = 1;        ///< that the run uses
  std::int64_t spare_nodes = 0;  ///< that the job has beside them
  std::int64_t tasks_per_node = 1;
  std::int64_t gpus_per_node = 0;
  std::int64_t time_s = 0;         ///< a multiple of 60, because Slurm counts minutes
  std::int64_t stop_before_s = 0;  ///< the ranks get SIGUSR2 this long before the time ends
  /// Numbers of nodes with which the run may go on when it has lost some.
  std::vector<std::int64_t> fewer_nodes;
  /// One line about a setting that is allowed but probably unintended; or empty.
  std::string note;

  [[nodiscard]] std::int64_t ranks() const { return nodes * tasks_per_node; }
};

/// Throws Error(kUsage) if batch or mesh do not fit the ranks, there are more tasks than GPUs, the requested
/// GPUs contradict train.device, or the time is too short for the stop signal.
[[nodiscard]] Allocation allocate(const Options& options, const Recipe& recipe);

/// Converts a time in Slurm's notation (M, M:S, H:M:S, D-H, D-H:M or D-H:M:S) to seconds, rounded up to whole
/// minutes. Throws Error(kUsage) for other texts, for 0 and for more than 366 days.
[[nodiscard]] std::int64_t seconds_of(const std::string& time);

/// The reverse of seconds_of(): "1-02:03:00".
[[nodiscard]] std::string slurm_time(std::int64_t seconds);

/// The task numbers of a job array ("0-3,7,10-20:5", optionally followed by %N), sorted, without duplicates.
/// Throws Error(kUsage) for other texts and for more than 1,000 tasks.
[[nodiscard]] std::vector<std::int64_t> array_tasks(const std::string& array);

/// Throws Error(kUsage) unless `dependency` is "singleton" or "after...:JOB[:JOB]", or several of these
/// separated by ',' or by '?'.
void check_dependency(const std::string& dependency);

}  // namespace echelon::submit
