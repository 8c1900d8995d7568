#include "base/caught.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <system_error>

#include "base/error.h"

namespace echelon {
namespace {

template <class Thrown>
std::string told(const Thrown& thrown) {
  try {
    throw thrown;
  } catch (...) {
    return caught();
  }
}

TEST(Caught, SaysInOneLineWhatWasThrown) {
  EXPECT_EQ(told(Error(Code::kData, "no data")), "no data");
  EXPECT_EQ(told(std::bad_alloc()), "out of memory");
  EXPECT_EQ(told(std::runtime_error("first\nframe 1\nframe 2")), "first");
  EXPECT_EQ(told(std::system_error(std::make_error_code(std::errc::io_error))), "Input/output error");
  EXPECT_EQ(told(std::filesystem::filesystem_error(
                "status", "a", std::make_error_code(std::errc::too_many_symbolic_link_levels))),
            "'a': Too many levels of symbolic links");
  const std::string no_thread =
      told(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  EXPECT_TRUE(no_thread.starts_with("cannot start a thread: raise the limit of processes")) << no_thread;
  EXPECT_EQ(told(7), "unknown error");
  EXPECT_EQ(told(std::runtime_error("")), "unknown error");
}

}  // namespace
}  // namespace echelon
