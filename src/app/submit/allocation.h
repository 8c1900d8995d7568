#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "app/submit/options.h"
#include "recipe/recipe.h"

namespace echelon::submit {

/// The numbers of a job, checked against each other and the recipe.
struct Allocation {
  std::int64_t nodes = 1;
  std::int64_t tasks_per_node = 1;
  std::int64_t gpus_per_node = 0;
  std::int64_t time_s = 0;         ///< whole minutes, as Slurm counts
  std::int64_t stop_before_s = 0;  ///< the ranks get SIGUSR2 so long before the end of the time
  std::string note;                ///< what is allowed and probably not meant, in one line; or empty

  [[nodiscard]] std::int64_t ranks() const { return nodes * tasks_per_node; }
};

/// Throws Error(kUsage): batch or mesh do not fit the ranks, more tasks than GPUs, GPUs asked for or missing
/// against train.device, no room for the stop signal before the end of the time.
[[nodiscard]] Allocation allocate(const Options& options, const Recipe& recipe);

/// Seconds of a time as Slurm writes it: M, M:S, H:M:S, D-H, D-H:M or D-H:M:S, rounded up to minutes. Throws
/// Error(kUsage) for other texts, for 0 and for more than a year.
[[nodiscard]] std::int64_t seconds_of(const std::string& time);

/// "1-02:03:00".
[[nodiscard]] std::string slurm_time(std::int64_t seconds);

/// The numbers of a job array ("0-3,7,10-20:5", a %N at the end allowed), in order, each once. Throws
/// Error(kUsage): other texts, more than 1,000 tasks.
[[nodiscard]] std::vector<std::int64_t> array_tasks(const std::string& array);

/// Throws Error(kUsage) unless `dependency` is "singleton" or "after...:JOB[:JOB]", several with , or ?
/// between.
void check_dependency(const std::string& dependency);

}  // namespace echelon::submit
