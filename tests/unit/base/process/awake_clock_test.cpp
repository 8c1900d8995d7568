#include "base/process/awake_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "support/suspend.h"

namespace echelon {
namespace {

TEST(AwakeClock, CountsTimeInWhichNobodyAsksButNotThatOfAStop) {
  const AwakeClock clock;
  const double begin_s = clock.now_s();
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  const double middle_s = clock.now_s();
  EXPECT_GT(middle_s - begin_s, 1.4);
  test::suspend(4);
  EXPECT_LT(clock.now_s() - middle_s, 3);
}

}  // namespace
}  // namespace echelon
