#include "base/process/python_package.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "support/temp_dir.h"
#include "support/variable.h"

namespace echelon {
namespace {

namespace stdfs = std::filesystem;

/// None of the variables names a Python.
class APythonPackage : public ::testing::Test {
 protected:
  /// A virtual environment with the package "thing".
  stdfs::path environment(const std::string& name) {
    const stdfs::path env = dir_.path() / name;
    stdfs::create_directories(env / "bin");
    stdfs::create_directories(env / "lib/python3.12/site-packages/thing");
    std::ofstream(env / "pyvenv.cfg") << "home = /usr/bin\n";
    return env;
  }
  void script(const stdfs::path& file, const std::string& text) {
    std::ofstream(file) << "#!/bin/sh\n" << text << "\n";
    ::chmod(file.c_str(), 0755);
  }
  test::TempDir dir_;
  test::Variable torch_{"ECHELON_TORCH", std::nullopt};
  test::Variable environment_{"VIRTUAL_ENV", std::nullopt};
  test::Variable python_{"ECHELON_PYTHON", dir_.path() / "none"};
};

TEST_F(APythonPackage, IsThatOfTheActiveEnvironment) {
  const stdfs::path env = environment("active");
  environment_.set(env);
  EXPECT_EQ(env / "lib/python3.12/site-packages/thing", find_python_package("thing"));
  EXPECT_EQ(std::nullopt, find_python_package("other"));
}

TEST_F(APythonPackage, IsBesideTheTorchThatIsNamed) {
  const test::Variable torch("ECHELON_TORCH", environment("theirs") / "lib/python3.12/site-packages/torch");
  environment_.set(environment("active"));
  EXPECT_EQ(dir_.path() / "theirs/lib/python3.12/site-packages/thing", find_python_package("thing"));
}

TEST_F(APythonPackage, OfAnEnvironmentIsFoundWithoutRunningPython) {
  const stdfs::path env = environment("named");
  script(env / "bin/python3", "echo must not run; exit 1");
  python_.set(env / "bin/python3");
  EXPECT_EQ(env / "lib/python3.12/site-packages/thing", find_python_package("thing"));
}

TEST_F(APythonPackage, ElsewhereIsWhatPythonSays) {
  const stdfs::path python = dir_.path() / "python3";
  script(python, "printf /elsewhere/thing");
  python_.set(python);
  EXPECT_EQ("/elsewhere/thing", find_python_package("thing"));
  script(python, "echo no such module >&2; exit 1");
  EXPECT_EQ(std::nullopt, find_python_package("thing"));
}

}  // namespace
}  // namespace echelon
