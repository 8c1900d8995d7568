#include "base/process/site_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "support/matches.h"
#include "support/refusal.h"
#include "support/temp_dir.h"
#include "support/variable.h"

namespace echelon {
namespace {

/// zlib, as a library that the site may provide.
SiteLibrary zlib() {
  return {.name = "zlib",
          .variable = "ECHELON_TEST_ZLIB",
          .soname = "libz.so.1",
          .symbol = "zlibVersion",
          .remedy = "install it"};
}

TEST(ASiteLibrary, IsFoundByItsName) {
  const char* (*version)() = nullptr;
  load(zlib()).find(version, "zlibVersion");
  EXPECT_TRUE(std::string_view(version()).starts_with("1."));
}

TEST(ASiteLibrary, IsTheFileThatTheVariableNamesOrNone) {
  test::Variable file("ECHELON_TEST_ZLIB", "/no/such/libz.so");
  const LoadedLibrary none = load(zlib());
  EXPECT_EQ(nullptr, none.handle);
  EXPECT_EQ(
      "zlib cannot be loaded: /no/such/libz.so: cannot open shared object file: No such file or directory; "
      "install it, or set ECHELON_TEST_ZLIB to its file libz.so.1",
      none.why);
  EXPECT_THROW(static_cast<void>(none.symbol("zlibVersion")), Error);
  file.set("libc.so.6");
  EXPECT_TRUE(load(zlib()).why.starts_with("zlib cannot be loaded: 'libc.so.6' is not zlib; "));
}

TEST(ASiteLibrary, IsFoundBesideMpirun) {
  Dl_info zlib_file{};
  ASSERT_NE(0, dladdr(load(zlib()).symbol("zlibVersion"), &zlib_file));
  SiteLibrary library = zlib();
  library.soname = "libechelon_test_zlib.so.1";
  for (const char* folder : {"lib", "lib64", "lib/openmpi"}) {
    const test::TempDir prefix;
    std::filesystem::create_directories(prefix.path() / "bin");
    std::filesystem::create_directories(prefix.path() / folder);
    std::filesystem::copy_file("/bin/sh", prefix.path() / "bin/mpirun");
    const test::Variable path("PATH", prefix.path() / "bin");
    EXPECT_EQ(nullptr, load(library).handle) << folder;
    std::filesystem::create_symlink(zlib_file.dli_fname, prefix.path() / folder / library.soname);
    EXPECT_NE(nullptr, load(library).handle) << folder;
  }
}

TEST(ASiteLibrary, ThatLacksAFunctionIsNamed) {
  const std::string said =
      test::refusal(Code::kEnvironment, [] { (void)load(zlib()).symbol("no_such_function"); });
  EXPECT_MENTIONS(said, "no_such_function");
}

}  // namespace
}  // namespace echelon
