#pragma once
#include <filesystem>
#include <string>

namespace echelon {

/// Path of a library that programs load on demand, such as "libechelon_engine.so": in the program's folder,
/// else in ../lib, where it need not exist.
[[nodiscard]] std::filesystem::path plugin_path(const char* library);

/// Loads a library with RTLD_NOW | RTLD_LOCAL. Returns null, with the loader's reason in `why`.
/// Throws Error(kEnvironment) if a limit on addresses (ulimit -v) is in the way.
[[nodiscard]] void* open_library(const std::filesystem::path& file, std::string& why);

/// Path of the library of this process whose file's name begins with `name`; empty: none is loaded.
[[nodiscard]] std::filesystem::path loaded_file(const char* name);

}  // namespace echelon
