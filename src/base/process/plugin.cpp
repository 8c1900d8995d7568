#include "base/process/plugin.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/resource.h>

#include <string_view>

#include "base/error.h"
#include "base/process/process.h"
#include "base/str.h"

namespace echelon {

std::filesystem::path plugin_path(const char* library) {
  const std::filesystem::path here = own_program().parent_path();
  const std::filesystem::path beside = here / library;
  return std::filesystem::exists(beside) ? beside : here.parent_path() / "lib" / library;
}

void* open_library(const std::filesystem::path& file, std::string& why) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  why = dlerror();
  // Callers tell of a library that is missing, and the loader names no limit.
  rlimit limit{};
  const auto says = [&why](std::string_view words) { return why.find(words) != why.npos; };
  if ((says("failed to map") || says("allocate memory")) && ::getrlimit(RLIMIT_AS, &limit) == 0 &&
      limit.rlim_cur != RLIM_INFINITY)
    throw Error(Code::kEnvironment, why, ": this process may have ",
                human_bytes(static_cast<double>(limit.rlim_cur)),
                " of addresses; raise the limit (ulimit -v)");
  return nullptr;
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
