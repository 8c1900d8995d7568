#include "bootstrap/call_thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace echelon {
namespace {

TEST(CallThread, GivesWhatEachCallReturns) {
  CallThread thread;
  EXPECT_EQ(thread.call_within(60, [] { return 3; }), 3);
  EXPECT_EQ(thread.call_within(60, [] { return 4; }), 4);
}

TEST(CallThread, DoesNotWaitForACallThatHangs) {
  struct Door {
    std::mutex mutex;
    std::condition_variable opened;
    bool open = false;
  };
  const auto door = std::make_shared<Door>();
  CallThread thread;
  EXPECT_EQ(thread.call_within(0.01,
                               [door] {
                                 std::unique_lock lock(door->mutex);
                                 door->opened.wait(lock, [&] { return door->open; });
                                 return 1;
                               }),
            std::nullopt);
  EXPECT_EQ(thread.call_within(60, [] { return 2; }), std::nullopt) << "it has no other thread";
  const std::lock_guard lock(door->mutex);
  door->open = true;
  door->opened.notify_all();
}

/// In a process that can have no further thread: the memory for its stack is not to be had.
TEST(CallThread, NeedsNoThreadWhenThereIsNoneLeft) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer needs memory of its own for a thread";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    CallThread thread;
    const rlimit none{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    ::setrlimit(RLIMIT_AS, &none);
    try {
      // Stacks of earlier threads are kept for some more.
      for (int n = 0; n < 10'000; ++n) std::thread([] { ::pause(); }).detach();
      ::_exit(1);  // the limit limits nothing
    } catch (const std::system_error&) {
      ::_exit(thread.call_within(60, [] { return 5; }) == 5 ? 0 : 2);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
}

}  // namespace
}  // namespace echelon
