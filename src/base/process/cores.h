#pragma once
#include <optional>
#include <string>
#include <vector>

/// The cores that this process may compute on.
namespace echelon {

/// The cores it is bound to, at most its control group's quota (containers). At least 1.
[[nodiscard]] int usable_cores();

/// Numbers of the cores that the calling thread is bound to, ascending.
[[nodiscard]] std::vector<int> bound_cores();

/// Binds the calling thread, and all threads that it starts from now on, to `cores`. Cores that it may not
/// use are left out; if none is left, nothing changes.
void bind_to(const std::vector<int>& cores);

/// Parses a list of the kernel: "0-3,8" gives 0, 1, 2, 3, 8. Returns an empty list for other text.
[[nodiscard]] std::vector<int> cores_of_list(const std::string& list);

/// Writes ascending numbers of cores as the kernel does: "0-3,8".
[[nodiscard]] std::string list_of_cores(const std::vector<int>& cores);

/// Returns the cores of process number `index` of a node, out of `near[index]`. Processes with equal sets
/// share them evenly. They get the same part of every run of consecutive numbers, because the two threads of
/// a core mostly lie in different runs. Where there are fewer cores than such processes, each gets all of
/// them.
[[nodiscard]] std::vector<int> fair_share(const std::vector<std::vector<int>>& near, std::size_t index);

/// A control group's quota ("200000 100000": microseconds per period) in cores, rounded up; nothing for "max"
/// or other text.
[[nodiscard]] std::optional<int> cores_of_quota(const std::string& cpu_max);

/// Returns the first number of OMP_NUM_THREADS ("4", "4,2"). Returns nothing for null and for values that
/// OpenMP would ignore.
[[nodiscard]] std::optional<int> threads_asked_for(const char* omp_num_threads);

/// Makes OpenMP's idle threads sleep after some microseconds of spinning, unless the user has set
/// OMP_WAIT_POLICY or GOMP_SPINCOUNT. By default they spin for milliseconds and block others on the same
/// core: this process's threads for communication and data, and other programs. Call before OpenMP's library
/// is loaded.
void let_idle_threads_sleep();

}  // namespace echelon
