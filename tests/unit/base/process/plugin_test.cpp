#include "base/process/plugin.h"

#include <gtest/gtest.h>

#include "support/matches.h"
#include "support/refusal.h"
#include "support/soft_limit.h"

namespace echelon {
namespace {

TEST(OpenLibrary, TellsALimitOnAddressesFromAMissingLibrary) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer needs addresses of its own";
#endif
  std::string why;
  EXPECT_EQ(open_library("/no/such/library.so", why), nullptr);
  EXPECT_MENTIONS(why, "cannot open shared object file");
  const auto error = test::thrown_by([&] {
    const test::SoftLimit tight(RLIMIT_AS, std::size_t{1} << 20);
    return open_library("libanl.so.1", why);
  });
  ASSERT_TRUE(error);
  EXPECT_MENTIONS(std::string(error->what()),
                  "libanl.so.1: ", "this process may have 1.0 MiB of addresses; raise the limit (ulimit -v)");
}

}  // namespace
}  // namespace echelon
