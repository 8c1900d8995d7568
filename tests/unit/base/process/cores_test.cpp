#include "base/process/cores.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <vector>

namespace {

/// How many a kernel has that is larger than this one; 0: ask this one.
thread_local std::size_t pretended_cores = 0;

}  // namespace

/// In place of the C library's.
extern "C" int sched_getaffinity(pid_t pid, std::size_t bytes, cpu_set_t* set) noexcept {
  if (bytes * 8 < pretended_cores) {
    errno = EINVAL;
    return -1;
  }
  __builtin_memset(set, 0, bytes);
  if (syscall(SYS_sched_getaffinity, pid, bytes, set) < 0) return -1;
  if (pretended_cores > 0) CPU_SET_S(pretended_cores - 1, bytes, set);
  return 0;
}

namespace echelon {
namespace {

// With CONFIG_NR_CPUS=8192 a kernel may have more of them than cpu_set_t.
TEST(Cores, MayBeMoreThanTheCLibrarysSetHas) {
  std::vector<int> all = bound_cores();
  pretended_cores = 3000;
  const std::vector<int> more = bound_cores();
  bind_to(more);
  pretended_cores = 0;
  EXPECT_EQ(bound_cores(), all);
  all.push_back(2999);
  EXPECT_EQ(more, all);
  EXPECT_EQ(cores_of_list("1022-1025"), (std::vector<int>{1022, 1023, 1024, 1025}));
}

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

TEST(Cores, OfTheKernelsLists) {
  EXPECT_EQ(cores_of_list("0-3,8\n"), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(cores_of_list("5"), std::vector<int>{5});
  for (const char* list : {"0-3,8", "5", "0,2,4-5", ""}) EXPECT_EQ(list_of_cores(cores_of_list(list)), list);
  for (const char* none : {"", "\n", "all", "3-1", "-1", "0-100000"})
    EXPECT_TRUE(cores_of_list(none).empty()) << none;
}

TEST(Cores, AThreadIsBoundToThoseOfThemThatItMayUse) {
  std::vector<int> bound;
  std::vector<int> still;
  const std::vector<int> before = bound_cores();
  std::thread([&] {
    bind_to({before.back(), 1023});
    bound = bound_cores();
    bind_to({1023});
    bind_to({});
    still = bound_cores();
  }).join();
  EXPECT_EQ(bound, std::vector<int>{before.back()});
  EXPECT_EQ(still, bound);
  EXPECT_EQ(bound_cores(), before);
}

// Two sockets of eight cores with two threads each, four devices on each socket: both threads of a core go to
// one.
TEST(Cores, AreSharedByTheProcessesThatAreNearThem) {
  const std::vector<int> one = cores_of_list("0-7,16-23");
  const std::vector<int> other = cores_of_list("8-15,24-31");
  const std::vector<std::vector<int>> near{one, one, other, one, one, other};
  EXPECT_EQ(fair_share(near, 0), (std::vector<int>{0, 1, 16, 17}));
  EXPECT_EQ(fair_share(near, 4), (std::vector<int>{6, 7, 22, 23}));
  EXPECT_EQ(fair_share(near, 2), cores_of_list("8-11,24-27"));
  EXPECT_EQ(fair_share(near, 5), cores_of_list("12-15,28-31"));
}

TEST(Cores, AreSharedWithoutALossHoweverTheyLie) {
  for (const char* list : {"0-11", "0-2,8-10", "0,2,4,6", "0-6", "1-2,5-9,12", "3"}) {
    const std::vector<int> cores = cores_of_list(list);
    for (std::size_t processes = 1; processes <= 6; ++processes) {
      std::vector<int> all;
      for (std::size_t index = 0; index < processes; ++index) {
        const std::vector<int> share = fair_share(std::vector(processes, cores), index);
        EXPECT_GE(share.size(), 1U) << list << " " << processes;
        all.insert(all.end(), share.begin(), share.end());
      }
      std::sort(all.begin(), all.end());
      if (processes > cores.size()) continue;  // each has all
      EXPECT_EQ(all, cores) << list << " " << processes;
    }
  }
  EXPECT_TRUE(fair_share({{}, {}}, 1).empty());
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
