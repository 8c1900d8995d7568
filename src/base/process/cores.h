#pragma once
#include <optional>
#include <string>

/// How many cores this process may compute on.
namespace echelon {

/// Those it is bound to, at most what the quota of its control group comes to (containers). At least 1.
[[nodiscard]] int usable_cores();

/// Cores that a control group's quota ("200000 100000": microseconds in a period) comes to, rounded up;
/// nothing for "max" or what is no quota.
[[nodiscard]] std::optional<int> cores_of_quota(const std::string& cpu_max);

/// What OMP_NUM_THREADS asks for: its first number ("4", "4,2"). Nothing for null and what OpenMP would
/// ignore.
[[nodiscard]] std::optional<int> threads_asked_for(const char* omp_num_threads);

/// How long OpenMP's idle threads spin, unless the user has said so (OMP_WAIT_POLICY, GOMP_SPINCOUNT): some
/// microseconds, then they sleep. By default they spin for milliseconds, which others of the same core wait
/// for: this process's threads for communication and data, and whoever shares the machine. Before OpenMP's
/// library is loaded.
void let_idle_threads_sleep();

}  // namespace echelon
