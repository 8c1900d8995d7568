#include "base/process/python_package.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "support/temp_dir.h"

namespace echelon {
namespace {

namespace stdfs = std::filesystem;

/// Variables of this process, as they were before.
class APythonPackage : public ::testing::Test {
 protected:
  APythonPackage() {
    ::unsetenv("VIRTUAL_ENV");
    ::setenv("ECHELON_PYTHON", (dir_.path() / "none").c_str(), 1);
  }
  ~APythonPackage() override {
    for (const char* name : {"VIRTUAL_ENV", "ECHELON_PYTHON", "ECHELON_TORCH"}) ::unsetenv(name);
  }
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
};

TEST_F(APythonPackage, IsThatOfTheActiveEnvironment) {
  const stdfs::path env = environment("active");
  ::setenv("VIRTUAL_ENV", env.c_str(), 1);
  EXPECT_EQ(env / "lib/python3.12/site-packages/thing", find_python_package("thing"));
  EXPECT_EQ(std::nullopt, find_python_package("other"));
}

TEST_F(APythonPackage, IsBesideTheTorchThatIsNamed) {
  ::setenv("ECHELON_TORCH", (environment("theirs") / "lib/python3.12/site-packages/torch").c_str(), 1);
  ::setenv("VIRTUAL_ENV", environment("active").c_str(), 1);
  EXPECT_EQ(dir_.path() / "theirs/lib/python3.12/site-packages/thing", find_python_package("thing"));
}

TEST_F(APythonPackage, OfAnEnvironmentIsFoundWithoutRunningPython) {
  const stdfs::path env = environment("named");
  script(env / "bin/python3", "echo must not run; exit 1");
  ::setenv("ECHELON_PYTHON", (env / "bin/python3").c_str(), 1);
  EXPECT_EQ(env / "lib/python3.12/site-packages/thing", find_python_package("thing"));
}

TEST_F(APythonPackage, ElsewhereIsWhatPythonSays) {
  const stdfs::path python = dir_.path() / "python3";
  script(python, "printf /elsewhere/thing");
  ::setenv("ECHELON_PYTHON", python.c_str(), 1);
  EXPECT_EQ("/elsewhere/thing", find_python_package("thing"));
  script(python, "echo no such module >&2; exit 1");
  EXPECT_EQ(std::nullopt, find_python_package("thing"));
}

}  // namespace
}  // namespace echelon
