#include "app/submit/sweep.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/matches.h"
#include "support/refusal.h"

namespace echelon::submit {
namespace {

using Texts = std::vector<std::string>;

TEST(Sweep, HasATaskForEachValue) {
  const auto sweep = sweep_in("optim.lr=1e-3,3e-3,1e-2");
  ASSERT_TRUE(sweep);
  EXPECT_EQ(sweep->array, "0-2");
  EXPECT_EQ(sweep->overrides, (Texts{"optim.lr=1e-3", "optim.lr=3e-3", "optim.lr=1e-2"}));
  EXPECT_EQ(sweep_in("optim.lr=1e-3,3e-3%1")->array, "0-1%1");
  EXPECT_EQ(sweep_in("optim.betas=[0.9,0.95],[0.9,0.99]")->overrides,
            (Texts{"optim.betas=[0.9,0.95]", "optim.betas=[0.9,0.99]"}));
  EXPECT_FALSE(sweep_in("0-9%1"));
  EXPECT_FALSE(sweep_in(""));
}

TEST(Sweep, RefusesEmptyValues) {
  for (const char* text : {"optim.lr=", "optim.lr=1e-3,", "optim.lr=,1", "=1,2", "optim.lr=%1"}) {
    const std::string said = test::refusal(Code::kUsage, [&] { (void)sweep_in(text); });
    EXPECT_MENTIONS(said, "such as optim.lr=1e-3,3e-3,1e-2") << text << ": " << said;
  }
}

}  // namespace
}  // namespace echelon::submit
