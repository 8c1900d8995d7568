#include "base/error.h"

#include <gtest/gtest.h>

#include <string>

#include "support/refusal.h"

namespace echelon {
namespace {

TEST(InContext, PutsWhatWasBeingDoneBeforeTheTextAndKeepsTheCode) {
  for (const std::string text : {"disk full", ""}) {
    const auto error =
        test::thrown_by([&] { in_context("save", [&] { throw Error(Code::kCheckpoint, text); }); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), Code::kCheckpoint);
    EXPECT_EQ(error->what(), "save: " + text);
    EXPECT_FALSE(error->is_reported());
  }
}

TEST(InContext, LeavesAnErrorThatIsReportedAlreadyAsItIs) {
  const auto error =
      test::thrown_by([] { in_context("save", [] { throw Error::already_reported(Code::kPeer); }); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::kPeer);
  EXPECT_TRUE(error->is_reported());
  EXPECT_STREQ(error->what(), "already reported");
}

TEST(InContext, ReturnsWhatTheBodyReturns) {
  int value = 3;
  int& same = in_context("look", [&]() -> int& { return value; });
  EXPECT_EQ(&same, &value);
}

}  // namespace
}  // namespace echelon
