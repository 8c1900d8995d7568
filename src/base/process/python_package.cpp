#include "base/process/python_package.h"

#include <cstdlib>

#include "base/process/process.h"
#include "base/process/program.h"
#include "base/str.h"

namespace echelon {
namespace {

namespace stdfs = std::filesystem;
constexpr const char* kPython = "ECHELON_PYTHON";

using Folder = std::optional<stdfs::path>;

/// In LIB/python3*/site-packages.
Folder installed_below(const stdfs::path& lib, const std::string& name) {
  std::error_code ignored;
  for (const auto& entry : stdfs::directory_iterator(lib, ignored)) {
    if (!entry.path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      stdfs::path package = entry.path() / packages / name;
      if (stdfs::is_directory(package, ignored)) return package;
    }
  }
  return std::nullopt;
}

Folder installed_for_python(const std::string& name) {
  const std::string named = environment_variable(kPython);
  const stdfs::path python = find_program(named.empty() ? "python3" : named);
  if (python.empty()) return std::nullopt;
  const stdfs::path environment = python.parent_path().parent_path();
  std::error_code ignored;
  if (stdfs::exists(environment / "pyvenv.cfg", ignored)) {
    if (Folder found = installed_below(environment / "lib", name)) return found;
  }
  // Not from the working folder, which -c puts first.
  const ProgramRun run = run_program(
      {python, "-c",
       str("import sys, importlib.util as u; sys.path = [p for p in sys.path if p]; s = u.find_spec('", name,
           "'); print(s.submodule_search_locations[0] if s else '', end='')")},
      30);
  if (!run.good() || run.out.empty()) return std::nullopt;
  return run.out;
}

}  // namespace

std::optional<stdfs::path> find_python_package(const std::string& name) {
  if (const std::string torch = environment_variable("ECHELON_TORCH"); !torch.empty()) {
    stdfs::path beside = stdfs::path(torch).parent_path() / name;
    if (std::error_code ignored; stdfs::is_directory(beside, ignored)) return beside;
  }
  // A wheel puts the programs into PREFIX/lib/echelon/bin.
  const stdfs::path program = own_program();
  if (Folder found = installed_below(program.parent_path().parent_path().parent_path(), name)) return found;
  if (const std::string environment = environment_variable("VIRTUAL_ENV"); !environment.empty()) {
    if (Folder found = installed_below(stdfs::path(environment) / "lib", name)) return found;
  }
  return installed_for_python(name);
}

void settle_python() {
  setenv(kPython, find_program("python3").c_str(), 0);
}

}  // namespace echelon
