#include "app/doctor/machine/machine.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "base/process/group_memory.h"
#include "base/str.h"

namespace echelon::app::doctor {

std::filesystem::path Machine::at(const std::string& path) const {
  return root_ / std::filesystem::path(path).relative_path();
}

std::optional<std::string> Machine::text(const std::string& path) const {
  // Files of /proc and /sys have no size to ask for, so read up to a limit until the end.
  std::ifstream file(at(path), std::ios::binary);
  std::string content(std::size_t{64} << 10, '\0');
  if (!file.read(content.data(), static_cast<std::streamsize>(content.size())) && file.bad())
    return std::nullopt;
  if (!file.is_open()) return std::nullopt;
  content.resize(static_cast<std::size_t>(file.gcount()));
  const auto last = content.find_last_not_of(" \t\r\n");
  content.resize(last == content.npos ? 0 : last + 1);
  return content;
}

std::vector<std::string> Machine::names(const std::string& path) const {
  std::vector<std::string> found;
  std::error_code error;
  std::filesystem::directory_iterator entry(at(path), error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    found.push_back(entry->path().filename().string());
  std::ranges::sort(found);
  return found;
}

std::optional<std::uint64_t> Machine::meminfo(const std::string& field) const {
  for (const std::string& line : split(text("/proc/meminfo").value_or(""), '\n')) {
    if (line.rfind(field + ":", 0) != 0) continue;
    return std::strtoull(line.c_str() + field.size() + 1, nullptr, 10) * 1024;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Machine::memory_bytes() const {
  const std::optional<std::uint64_t> total = meminfo("MemTotal");
  const auto limit = group_memory_limit(at("/proc/self/cgroup"), at("/sys/fs/cgroup"));
  return total && limit ? std::min(*total, *limit) : total;
}

}  // namespace echelon::app::doctor
