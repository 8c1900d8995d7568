#include "base/process.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <sstream>

#include "base/fs.h"

namespace echelon {

std::optional<ProcessInfo> process_info(pid_t pid) {
  const std::string text = fs::process_file(pid, "stat");
  // The second field, the program's name in parentheses, may hold anything.
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessInfo info;
  std::string skipped;
  fields >> skipped >> info.parent;  // the third and fourth
  for (int i = 5; i < 22; ++i) fields >> skipped;
  if (!(fields >> info.start)) return std::nullopt;  // the 22nd
  return info;
}

std::string find_program(const std::string& name) {
  if (name.find('/') != name.npos) return access(name.c_str(), X_OK) == 0 ? name : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace echelon
