#include "base/terminal/standard_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <iostream>

#include "base/error.h"

namespace echelon {
namespace {

/// Exit code of a process with `file` as its standard output: that of the Error, 0 without one.
int code_with_output_to(const char* file, const std::function<void()>& print) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open(file, O_WRONLY), STDOUT_FILENO);
    try {
      print();
      finish_standard_output();
    } catch (const Error& e) {
      ::_exit(static_cast<int>(e.code()));
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(StandardOutput, ThatDoesNotTakeWhatIsPrintedIsAnError) {
  const auto by_stream = [] { std::cout << "x"; };
  const auto by_stdio = [] { std::fputs("x", stdout); };
  const auto filtered = [] {
    const TerminalOutput safe;
    std::cout << "x\n";
  };
  const auto nothing = [] {};
  for (const std::function<void()>& print : {std::function<void()>(by_stream), {by_stdio}, {filtered}}) {
    EXPECT_EQ(code_with_output_to("/dev/full", print), 3);
    EXPECT_EQ(code_with_output_to("/dev/null", print), 0);
  }
  EXPECT_EQ(code_with_output_to("/dev/full", nothing), 0);
}

TEST(TerminalOutput, ShowsWhatATerminalWouldObey) {
  testing::internal::CaptureStdout();
  {
    const TerminalOutput safe;
    std::cout << "name " << '\x1b' << "[2J\n"
              << 7 << " \xFF" << std::flush << "\xC3"
              << "\x9F"
              << " rest";
  }
  std::cout << "\x1b raw\n" << std::flush;
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "name \\x1b[2J\n7 \\xff\xC3\x9F rest\x1b raw\n");
}

}  // namespace
}  // namespace echelon
