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

TEST(InContext, LeavesAnErrorThatAnotherRankReportsWithoutText) {
  EXPECT_EQ(in_save(Error(Code::kPeer, "")), (std::pair<Code, std::string>(Code::kPeer, "")));
}

TEST(InContext, ReturnsWhatTheBodyReturns) {
  int value = 3;
  int& same = in_context("look", [&]() -> int& { return value; });
  EXPECT_EQ(&same, &value);
}

}  // namespace
}  // namespace echelon
