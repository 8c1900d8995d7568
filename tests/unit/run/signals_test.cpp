#include "run/signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace echelon {
namespace {

TEST(StopSignal, NamesTheSignalThatCame) {
  for (const auto& [number, name] : {std::pair{SIGTERM, "SIGTERM"},
                                     {SIGINT, "SIGINT"},
                                     {SIGUSR2, "SIGUSR2"},
                                     {SIGHUP, "SIGHUP"},
                                     {SIGQUIT, "SIGQUIT"}}) {
    const StopSignal signal;
    EXPECT_EQ(signal.requested(), nullptr);
    raise(number);
    EXPECT_STREQ(signal.requested(), name);
  }
}

int calls = 0;

TEST(StopSignal, GivesTheHandlersBack) {
  calls = 0;
  const auto before = std::signal(SIGTERM, [](int) { ++calls; });
  {
    const StopSignal signal;
    raise(SIGTERM);
    EXPECT_EQ(calls, 0);
  }
  raise(SIGTERM);
  EXPECT_EQ(calls, 1);
  std::signal(SIGTERM, before);
}

/// How a process ends that gets these signals one after another.
int status_after(std::initializer_list<int> signals) {
  const pid_t child = fork();
  if (child == 0) {
    const StopSignal signal;
    for (const int number : signals) raise(number);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(StopSignal, OnlyASecondInterruptEndsTheProcessAtOnce) {
  EXPECT_EQ(status_after({SIGINT}), 0);
  EXPECT_EQ(status_after({SIGINT, SIGINT}), 128 + SIGINT);
  EXPECT_EQ(status_after({SIGINT, SIGTERM, SIGINT}), 128 + SIGINT);
  EXPECT_EQ(status_after({SIGQUIT}), 0);
  EXPECT_EQ(status_after({SIGINT, SIGQUIT}), 128 + SIGQUIT);
  EXPECT_EQ(status_after({SIGTERM, SIGTERM, SIGUSR2, SIGUSR2, SIGHUP, SIGHUP}),
            0);  // schedulers repeat themselves
}

/// Of a child that runs `body` and then ends with 7.
template <class Body>
int status_of(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(StopSignal, OnceTheEndIsCertainNoSignalChangesIt) {
  const auto leave = [](bool ignoring) {
    {
      StopSignal signal;
      if (ignoring) signal.ignore_further();
    }
    for (const int number : {SIGTERM, SIGINT, SIGINT, SIGUSR2}) raise(number);
  };
  EXPECT_EQ(status_of([&] { leave(true); }), 7);
  EXPECT_EQ(status_of([&] { leave(false); }), 128 + SIGTERM);
}

TEST(StopSignal, LeavesAnIgnoredHangUpIgnored) {
  EXPECT_EQ(status_of([] {
              std::signal(SIGHUP, SIG_IGN);  // nohup
              const StopSignal signal;
              raise(SIGHUP);
              _exit(signal.requested() == nullptr ? 3 : 4);
            }),
            3);
}

TEST(StopSignal, TakesBackWhatALibraryTook) {
  const auto after_a_library = [](void (*before)(int)) {
    std::signal(SIGHUP, before);
    StopSignal signal;
    std::signal(SIGHUP, [](int) {});
    signal.take_back();
    raise(SIGHUP);
    _exit(signal.requested() == nullptr ? 3 : 4);
  };
  EXPECT_EQ(status_of([&] { after_a_library(SIG_DFL); }), 4);
  EXPECT_EQ(status_of([&] { after_a_library(SIG_IGN); }), 3);
}

TEST(StopSignal, TakesOneThatCameWhileItWasHeldBack) {
  EXPECT_EQ(status_of([] {
              sigset_t set;
              sigemptyset(&set);
              sigaddset(&set, SIGTERM);
              sigprocmask(SIG_BLOCK, &set, nullptr);
              raise(SIGTERM);
              const StopSignal signal;
              _exit(signal.requested() != nullptr ? 3 : 4);
            }),
            3);
}

}  // namespace
}  // namespace echelon
