#pragma once
#include <filesystem>

namespace echelon {

/// Path of a library that programs load on demand, such as "libechelon_engine.so": in the program's folder,
/// else in ../lib, where it need not exist.
[[nodiscard]] std::filesystem::path plugin_path(const char* library);

}  // namespace echelon
