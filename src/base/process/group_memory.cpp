#include "base/process/group_memory.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/str.h"

namespace echelon {
namespace {

using std::filesystem::path;

/// The files of a version of control groups.
struct Version {
  const char* limit;
  const char* used;
  std::array<std::string_view, 2> cached;  ///< fields of memory.stat: contents of files, which give way
};
constexpr Version kFirst{
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
constexpr Version kSecond{"memory.max", "memory.current", {"inactive_file", "active_file"}};

/// None for "max" and for a file that is not there.
std::optional<std::uint64_t> number_in(const path& file) {
  std::uint64_t number = 0;
  return std::ifstream(file) >> number ? std::optional(number) : std::nullopt;
}

std::optional<std::uint64_t> left_in(const path& group, const Version& version) {
  const auto limit = number_in(group / version.limit);
  const auto used = number_in(group / version.used);
  if (!limit || !used) return std::nullopt;
  std::uint64_t cached = 0;
  std::ifstream statistics(group / "memory.stat");
  std::uint64_t value = 0;
  for (std::string field; statistics >> field >> value;) {
    if (std::ranges::find(version.cached, field) != version.cached.end()) cached += value;
  }
  const std::uint64_t kept = *used - std::min(*used, cached);
  return *limit - std::min(*limit, kept);
}

/// The least that `bytes_in` says of a group of the process or one above it.
std::optional<std::uint64_t> least_of(
    const path& groups, const path& mounted,
    const std::function<std::optional<std::uint64_t>(const path&, const Version&)>& bytes_in) {
  std::optional<std::uint64_t> least;
  std::ifstream lines(groups);
  for (std::string line; std::getline(lines, line);) {  // "4:memory:/job/step", or "0::/job/step"
    const std::vector<std::string> parts = split(line, ':');
    if (parts.size() < 3) continue;
    const auto controllers = split(parts[1], ',');
    const bool second = parts[1].empty();
    if (!second && std::ranges::find(controllers, "memory") == controllers.end()) continue;
    const path top = second ? mounted : mounted / "memory";
    // In a container the path may be the host's, of which the container sees the top alone.
    for (path below = path(parts[2]).relative_path();; below = below.parent_path()) {
      const auto bytes = bytes_in(top / below, second ? kSecond : kFirst);
      if (bytes) least = std::min(*bytes, least.value_or(*bytes));
      if (below.empty()) break;
    }
  }
  return least;
}

}  // namespace

std::optional<std::uint64_t> group_memory_left(const path& groups, const path& mounted) {
  return least_of(groups, mounted, left_in);
}

std::optional<std::uint64_t> group_memory_limit(const path& groups, const path& mounted) {
  return least_of(groups, mounted,
                  [](const path& group, const Version& version) { return number_in(group / version.limit); });
}

}  // namespace echelon
