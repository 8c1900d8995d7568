#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace echelon {

/// Folder of a Python package such as "torch", of which only libraries are used: beside what ECHELON_TORCH
/// names, else in the environment this program is installed in (a wheel), else in $VIRTUAL_ENV, else in the
/// python3 that ECHELON_PYTHON names or that is first in PATH. Python runs only where that one is in no
/// virtual environment, and imports nothing. Nothing: found nowhere.
[[nodiscard]] std::optional<std::filesystem::path> find_python_package(const std::string& name);

/// Where find_python_package() looks, for messages.
constexpr const char* kPythonPlaces = "beside this program, in VIRTUAL_ENV or in the python3 of PATH";

/// Tells the processes that this one starts which python3 is first in PATH now: mpirun changes PATH.
void settle_python();

}  // namespace echelon
