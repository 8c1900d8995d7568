#include "base/process/plugin.h"

namespace echelon {

std::filesystem::path plugin_path(const char* library) {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path beside = here / library;
  return std::filesystem::exists(beside) ? beside : here.parent_path() / "lib" / library;
}

}  // namespace echelon
