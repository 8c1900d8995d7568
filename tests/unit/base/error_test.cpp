#include "base/error.h"

#include <gtest/gtest.h>

namespace echelon {
namespace {

/// Code and text of what leaves in_context("save", throwing `error`).
std::pair<Code, std::string> in_save(const Error& error) {
  try {
    in_context("save", [&] { throw error; });
  } catch (const Error& e) {
    return {e.code(), e.what()};
  }
  return {Code::kUsage, "nothing thrown"};
}

TEST(InContext, PutsWhatWasBeingDoneBeforeTheTextAndKeepsTheCode) {
  EXPECT_EQ(in_save(Error(Code::kCheckpoint, "disk full")),
            (std::pair<Code, std::string>(Code::kCheckpoint, "save: disk full")));
}

TEST(InContext, LeavesAnErrorThatIsReportedAlreadyAsItIs) {
  try {
    in_context("save", [] { throw Error::already_reported(Code::kPeer); });
    FAIL() << "nothing thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kPeer);
    EXPECT_TRUE(e.is_reported());
    EXPECT_STREQ(e.what(), "already reported");
  }
}

TEST(InContext, AnErrorIsNotReportedByItsContext) {
  try {
    in_context("save", [] { throw Error(Code::kPeer, ""); });
    FAIL() << "nothing thrown";
  } catch (const Error& e) {
    EXPECT_FALSE(e.is_reported());
    EXPECT_STREQ(e.what(), "save: ");
  }
}

TEST(InContext, ReturnsWhatTheBodyReturns) {
  int value = 3;
  int& same = in_context("look", [&]() -> int& { return value; });
  EXPECT_EQ(&same, &value);
}

}  // namespace
}  // namespace echelon
