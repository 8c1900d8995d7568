// A child process that is limited to computing, whatever it tries.
#include "checkpoint/hdf5/limited_child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/files/fs.h"
#include "base/str.h"
#include "checkpoint/hdf5/h5_verify.h"

namespace echelon::checkpoint {
namespace {

ChildResult run(const std::function<std::string()>& body, const ChildLimits& limits = {}) {
  const fs::Fd input = fs::open("/proc/self/status", O_RDONLY, Code::kCheckpoint);
  return run_limited(
      input.get(), [] {}, [&, fd = input.get()] { return fd >= 0 ? body() : std::string(); }, limits);
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(LimitedChild, ReturnsWhatItComputed) {
  const ChildResult result = run([] { return std::string(100'000, 'x'); });
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.output, std::string(100'000, 'x'));
}

TEST(LimitedChild, ReadsItsInput) {
  const fs::Fd input = fs::open("/proc/self/status", O_RDONLY, Code::kCheckpoint);
  const ChildResult result = run_limited(
      input.get(), [] {},
      [fd = input.get()] {
        char byte = 0;
        return str(::pread(fd, &byte, 1, 0), byte);
      },
      {});
  EXPECT_EQ(result.output, "1N");
}

TEST(LimitedChild, OpensNothing) {
  const ChildResult result = run([] {
    const int read = ::open("/etc/passwd", O_RDONLY);
    const int error = errno;
    const int made = ::open("/tmp/limited-child-was-here", O_WRONLY | O_CREAT, 0600);
    return str(read, ' ', error == EACCES, ' ', made);
  });
  EXPECT_EQ(result.output, "-1 1 -1");
}

TEST(LimitedChild, HasNothingElseOpen) {
  const fs::Fd other = fs::open("/proc/self/status", O_RDONLY, Code::kCheckpoint);
  const ChildResult result = run([&] {
    char byte = 0;
    return str(::pread(other.get(), &byte, 1, 0), ' ', ::write(STDOUT_FILENO, "x", 1));
  });
  EXPECT_EQ(result.output, "-1 -1");
}

TEST(LimitedChild, EndsWhenItReachesForMore) {
  const auto business = "not allowed";
  EXPECT_TRUE(mentions(run([] { return str(::socket(AF_INET, SOCK_STREAM, 0)); }).failure, business));
  EXPECT_TRUE(mentions(run([] { return str(::fork()); }).failure, business));
  EXPECT_TRUE(mentions(run([] { return str(::execl("/bin/true", "true", nullptr)); }).failure, business));
  EXPECT_TRUE(mentions(run([] { return str(::unlink("/tmp/limited-child-was-here")); }).failure, business));
  EXPECT_TRUE(mentions(run([] { return str(::kill(::getppid(), SIGKILL)); }).failure, business));
}

TEST(LimitedChild, MayCrash) {
  EXPECT_TRUE(mentions(run([]() -> std::string { __builtin_trap(); }).failure, "ended by signal"));
  EXPECT_TRUE(mentions(run([]() -> std::string { throw std::runtime_error("x"); }).failure, "gave up"));
}

TEST(LimitedChild, MayLoopForAWhile) {
  const auto loop = []() -> std::string {
    volatile bool on = true;
    while (on) {
    }
    return "never";
  };
  EXPECT_TRUE(mentions(run(loop, {.cpu_s = 1}).failure, "processor time"));
  EXPECT_TRUE(mentions(run([] { return str(::sleep(100)); }, {.timeout_s = 1}).failure, "within 1 s"));
}

TEST(LimitedChild, HasLittleMemory) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer reserves terabytes of address space";
#endif
  const ChildResult result = run([] { return str(std::string(std::size_t{2} << 30, 'x').size()); });
  EXPECT_TRUE(mentions(result.failure, "ran out of memory")) << result.failure << result.output;
}

TEST(LimitedChild, MayNotTalkWithoutEnd) {
  EXPECT_NE(run([] { return std::string(std::size_t{4} << 20, 'x'); }).failure, "");
}

TEST(LimitedChild, WhatItSaysAboutAFileIsTextOnly) {
  ShardIndex index;
  index.entries.push_back({.tensor = {"model/w", DType::kF32, {2}}});
  const auto problems = read_h5_problems(
      "model/w\tits type is not fp32\nmodel/\x1b[2Jx\tred \x1b[31m \xff\nno tab\n\ta\tb", index);
  ASSERT_EQ(problems.size(), 4U);
  EXPECT_EQ(problems[0].tensor, "model/w");
  EXPECT_EQ(problems[0].problem, "its type is not fp32");
  EXPECT_EQ(problems[1].tensor, "") << "the index has no such tensor";
  EXPECT_EQ(problems[1].problem, "red \\x1b[31m \\xff");
  EXPECT_EQ(problems[2].problem, "");
  EXPECT_EQ(problems[3].problem, "a\\x09b");
  std::string many;
  for (int i = 0; i < 100'000; ++i) many += "\tx\n";
  EXPECT_LT(read_h5_problems(many, index).size(), 1000U);
}

}  // namespace
}  // namespace echelon::checkpoint
