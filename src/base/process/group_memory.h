#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

namespace echelon {

/// Returns how many bytes the control groups of this process still let it take, files in memory (tmpfs)
/// included; none if no group has a limit. Both versions of control groups are read. `groups`: the groups of
/// the process, `mounted`: where their files are.
[[nodiscard]] std::optional<std::uint64_t> group_memory_left(
    const std::filesystem::path& groups = "/proc/self/cgroup",
    const std::filesystem::path& mounted = "/sys/fs/cgroup");
/// Returns how many bytes they let it have at most; none if no group has a limit.
[[nodiscard]] std::optional<std::uint64_t> group_memory_limit(const std::filesystem::path& groups,
                                                              const std::filesystem::path& mounted);

}  // namespace echelon
