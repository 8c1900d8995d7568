#pragma once
#include <optional>
#include <string>

/// How many cores this process may compute on.
namespace echelon {

/// The cores it is bound to, at most its control group's quota (containers). At least 1.
[[nodiscard]] int usable_cores();

/// A control group's quota ("200000 100000": microseconds per period) in cores, rounded up; nothing for "max"
/// or other text.
[[nodiscard]] std::optional<int> cores_of_quota(const std::string& cpu_max);

/// What OMP_NUM_THREADS asks for: its first number ("4", "4,2"). Nothing for null and what OpenMP would
/// ignore.
[[nodiscard]] std::optional<int> threads_asked_for(const char* omp_num_threads);

/// Makes OpenMP's idle threads sleep after some microseconds of spinning, unless the user has set
/// OMP_WAIT_POLICY or GOMP_SPINCOUNT. By default they spin for milliseconds and block others on the same
/// core: this process's threads for communication and data, and other programs. Call before OpenMP's library
/// is loaded.
void let_idle_threads_sleep();

}  // namespace echelon
