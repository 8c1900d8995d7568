#include "base/process/plugin.h"

#include <dlfcn.h>
#include <link.h>

namespace echelon {

std::filesystem::path plugin_path(const char* library) {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path beside = here / library;
  return std::filesystem::exists(beside) ? beside : here.parent_path() / "lib" / library;
}

void* open_library(const std::filesystem::path& file, std::string& why) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) why = dlerror();
  return handle;
}

std::filesystem::path loaded_file(const char* name) {
  struct Search {
    const char* name;
    std::filesystem::path found;
  } search{.name = name, .found = {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& asked = *static_cast<Search*>(data);
        const std::filesystem::path file = info->dlpi_name;
        if (!file.filename().string().starts_with(asked.name)) return 0;
        asked.found = file;
        return 1;
      },
      &search);
  return search.found;
}

}  // namespace echelon
