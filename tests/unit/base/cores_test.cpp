#include "base/process/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace echelon {
namespace {

TEST(Cores, OfAQuotaAreRoundedUp) {
  EXPECT_EQ(cores_of_quota("200000 100000\n"), 2);
  EXPECT_EQ(cores_of_quota("150000 100000"), 2);
  EXPECT_EQ(cores_of_quota("10000 100000"), 1);
  EXPECT_EQ(cores_of_quota("max 100000"), std::nullopt);
  for (const char* no_quota : {"", "100000", "-1 100000", "5 0", "nan nan"})
    EXPECT_EQ(cores_of_quota(no_quota), std::nullopt) << no_quota;
}

TEST(Cores, AreThoseTheThreadIsBoundTo) {
  int bound = 0;
  std::thread([&bound] {
    cpu_set_t all;
    CPU_ZERO(&all);
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
      if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    bound = usable_cores();
  }).join();
  EXPECT_EQ(bound, 1);
}

TEST(Cores, ThreadsAreAskedForAsOpenMpReadsThem) {
  EXPECT_EQ(threads_asked_for("3"), 3);
  EXPECT_EQ(threads_asked_for(" 8 "), 8);
  EXPECT_EQ(threads_asked_for("4,2"), 4);
  EXPECT_EQ(threads_asked_for(nullptr), std::nullopt);
  for (const char* nonsense : {"", " ", "0", "-2", "four", "2x", "99999999999", "5000"})
    EXPECT_EQ(threads_asked_for(nonsense), std::nullopt) << nonsense;
}

}  // namespace
}  // namespace echelon
