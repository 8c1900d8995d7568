#pragma once
#include <string>

/// Where a test finds what is not its own. Functions, not macros: a path in a compile command would keep
/// ccache from serving a clone in another folder.
namespace echelon::test {

/// The project's folder.
[[nodiscard]] const std::string& source_dir();

/// A Python with the packages of tests/support/requirements.txt.
[[nodiscard]] const std::string& test_python();

/// The full name of a program of this build, for example "echelon-ckpt".
[[nodiscard]] std::string program(const std::string& name);

}  // namespace echelon::test
