#include "base/terminal/status_line.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <limits>
#include <thread>

#include "base/log.h"
#include "base/terminal/progress_bar.h"
#include "support/variable.h"

namespace echelon {
namespace {

using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

TEST(StatusLine, NeedsATerminalThatKnowsHow) {
  const int main = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(main, 0);
  ASSERT_EQ(::grantpt(main), 0);
  ASSERT_EQ(::unlockpt(main), 0);
  const int terminal = ::open(::ptsname(main), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  test::Variable term("TERM", "xterm-256color");
  EXPECT_TRUE(status_line::is_possible(terminal));
  const int file = ::open("/dev/null", O_WRONLY);
  EXPECT_FALSE(status_line::is_possible(file));
  for (const char* kind : {"dumb", ""}) {
    term.set(kind);
    EXPECT_FALSE(status_line::is_possible(terminal)) << kind;
  }
  term.set(std::nullopt);
  EXPECT_FALSE(status_line::is_possible(terminal));
  for (const int fd : {file, terminal, main}) ::close(fd);
}

/// What a bar leaves on a standard error that is no terminal.
std::string bar_with(const char* progress, const char* rank) {
  const test::Variable of_launcher("ECHELON_PROGRESS", progress);
  const test::Variable of_rank("PMIX_RANK", rank);
  CaptureStderr();
  {
    ProgressBar bar("scoring", "questions");
    std::this_thread::sleep_for(std::chrono::milliseconds(101));  // it is redrawn ten times a second
    bar.show(0, 200);
  }
  return GetCapturedStderr();
}

TEST(StatusLine, HasTheBarOfTheFirstRankWhereItsLauncherHasATerminal) {
  EXPECT_EQ(bar_with("bar", "0"),
            "\r\033[K\033[?7lscoring\033[?7h"
            "\r\033[K\033[?7lscoring [..............................] 0% of 200 questions\033[?7h"
            "\r\033[K");
  EXPECT_EQ(bar_with("bar", "1"), "");
  EXPECT_EQ(bar_with("", "0"), "") << "a file or a pipe";
  EXPECT_EQ(bar_with("none", "0"), "") << "--quiet";
}

TEST(StatusLine, StaysBelowTheLog) {
  CaptureStderr();
  log::info("before");
  status_line::show("saving step 30");
  log::info("saved step 30");
  log::error("rank 1 failed");
  status_line::show("");
  status_line::show("");
  log::info("after");
  EXPECT_EQ(GetCapturedStderr(),
            "before\n"
            "\r\033[K\033[?7lsaving step 30\033[?7h"
            "\r\033[Ksaved step 30\n\033[?7lsaving step 30\033[?7h"
            "\r\033[Krank 1 failed\n\033[?7lsaving step 30\033[?7h"
            "\r\033[Kafter\n");
}

TEST(StatusLine, KnowsNoPaceBeforeSomethingIsDone) {
  EXPECT_EQ(status_line::pace(0, 1 << 20, 3), "");
  EXPECT_EQ(status_line::pace(512, 1 << 20, 0), "");
  EXPECT_EQ(status_line::pace(1 << 20, 4 << 20, 2), ", 512.0 KiB/s, 6 s left");
  EXPECT_EQ(status_line::pace(30, 100, 8, false), ", 3.8/s, 19 s left");
  EXPECT_EQ(status_line::pace(5 << 20, 4 << 20, 5), ", 1.0 MiB/s, 0 s left") << "a source that grew";
}

TEST(StatusLine, DrawsABarOfItsWidth) {
  EXPECT_EQ(status_line::bar(0, 4), "....");
  EXPECT_EQ(status_line::bar(0.5, 4), "##..");
  EXPECT_EQ(status_line::bar(1, 4), "####");
  EXPECT_EQ(status_line::bar(1.5, 4), "####");
  EXPECT_EQ(status_line::bar(std::numeric_limits<double>::quiet_NaN(), 4), "....");
}

}  // namespace
}  // namespace echelon
