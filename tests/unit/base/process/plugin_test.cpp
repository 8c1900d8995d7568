#include "base/process/plugin.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "support/matches.h"
#include "support/refusal.h"

namespace echelon {
namespace {

TEST(OpenLibrary, TellsALimitOnAddressesFromAMissingLibrary) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer needs addresses of its own";
#endif
  std::string why;
  EXPECT_EQ(open_library("/no/such/library.so", why), nullptr);
  EXPECT_MENTIONS(why, "cannot open shared object file");
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  rlimit tight = before;
  tight.rlim_cur = std::size_t{1} << 20;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  const auto error = test::thrown_by([&] { return open_library("libanl.so.1", why); });
  setrlimit(RLIMIT_AS, &before);
  ASSERT_TRUE(error);
  EXPECT_MENTIONS(std::string(error->what()),
                  "libanl.so.1: ", "this process may have 1.0 MiB of addresses; raise the limit (ulimit -v)");
}

}  // namespace
}  // namespace echelon
