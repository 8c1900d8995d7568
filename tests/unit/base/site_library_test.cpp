#include "base/process/site_library.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/error.h"

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

class ASiteLibrary : public ::testing::Test {
 protected:
  ~ASiteLibrary() override { ::unsetenv("ECHELON_TEST_ZLIB"); }
};

TEST_F(ASiteLibrary, IsFoundByItsName) {
  const char* (*version)() = nullptr;
  load(zlib()).find(version, "zlibVersion");
  EXPECT_TRUE(std::string_view(version()).starts_with("1."));
}

TEST_F(ASiteLibrary, IsTheFileThatTheVariableNamesOrNone) {
  ::setenv("ECHELON_TEST_ZLIB", "/no/such/libz.so", 1);
  const LoadedLibrary none = load(zlib());
  EXPECT_EQ(nullptr, none.handle);
  EXPECT_EQ(
      "zlib cannot be loaded: /no/such/libz.so: cannot open shared object file: No such file or directory; "
      "install it, or set ECHELON_TEST_ZLIB to its file libz.so.1",
      none.why);
  EXPECT_THROW(static_cast<void>(none.symbol("zlibVersion")), Error);
  ::setenv("ECHELON_TEST_ZLIB", "libc.so.6", 1);
  EXPECT_TRUE(load(zlib()).why.starts_with("zlib cannot be loaded: 'libc.so.6' is not zlib; "));
}

TEST_F(ASiteLibrary, ThatLacksAFunctionIsNamed) {
  try {
    static_cast<void>(load(zlib()).symbol("no_such_function"));
    FAIL() << "found";
  } catch (const Error& error) {
    EXPECT_EQ(Code::kEnvironment, error.code());
    EXPECT_NE(nullptr, std::strstr(error.what(), "no_such_function"));
  }
}

}  // namespace
}  // namespace echelon
