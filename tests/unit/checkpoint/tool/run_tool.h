#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/places.h"
#include "support/temp_dir.h"
#include "unit/checkpoint/example.h"

/// echelon-ckpt, run as a user runs it.
namespace echelon::checkpoint::test {

struct Outcome {
  int code = -1;  ///< exit code, or 128 + signal
  std::string out;
  std::string err;
  std::uint64_t max_rss_bytes = 0;  ///< most memory it held at a time
};

inline pid_t start(const TempDir& scratch, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), echelon::test::program("echelon-ckpt"));
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const std::string out = (scratch.path() / "out").string();
  const std::string err = (scratch.path() / "err").string();
  // What the parent holds when it forks counts as the child's; with posix_spawn, the most it ever held.
  ::malloc_trim(0);
  const pid_t child = ::fork();
  EXPECT_GE(child, 0);
  if (child == 0) {
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  return child;
}

inline Outcome finish(const TempDir& scratch, pid_t child) {
  int status = 0;
  rusage usage{};
  EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, slurp(scratch.path() / "out"), slurp(scratch.path() / "err"),
          static_cast<std::uint64_t>(usage.ru_maxrss) << 10};
}

inline Outcome tool(std::vector<std::string> arguments) {
  const TempDir scratch;
  return finish(scratch, start(scratch, std::move(arguments)));
}

/// The outcome of a command that has to succeed.
inline Outcome succeeded(Outcome outcome) {
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome;
}

inline void expect_one_line(const Outcome& outcome, int code, const std::string& part) {
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_MENTIONS(outcome.err, part);
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

}  // namespace echelon::checkpoint::test
