#include "base/process/process.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>

#include "support/variable.h"

namespace echelon {
namespace {

/// A child under another name, until the end of the scope.
class Child {
 public:
  explicit Child(const char* name) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_NAME, name);
    for (;;) ::pause();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

std::string name_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

TEST(ProcessInfo, IsThatOfTheProcessWhateverItsName) {
  const auto mine = process_info(::getpid());
  ASSERT_TRUE(mine);
  EXPECT_EQ(mine->parent, ::getppid());
  for (const char* name : {"plain", ") S 1 2 3", "a (b) c)", "((("}) {
    Child child(name);
    while (name_of(child.pid()) != name) ::usleep(1000);
    const auto info = process_info(child.pid());
    ASSERT_TRUE(info) << name;
    EXPECT_EQ(info->parent, ::getpid()) << name;
    EXPECT_GE(info->start, mine->start) << name;
    // Ticks since the machine started, so not later than now.
    double uptime_s = 0;
    std::ifstream("/proc/uptime") >> uptime_s;
    const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
    EXPECT_LE(static_cast<double>(info->start), (uptime_s + 1) * ticks) << name;
    EXPECT_EQ(process_info(child.pid())->start, info->start) << name;
    const pid_t gone = child.pid();
    child.end();
    EXPECT_FALSE(process_info(gone)) << name;
  }
}

TEST(ProcessInfo, HostNameIsTheMachines) {
  std::string line;
  std::getline(std::ifstream("/proc/sys/kernel/hostname"), line);
  EXPECT_EQ(host_name(), line);
}

TEST(FindProgram, LooksInPathUnlessItIsAPath) {
  EXPECT_EQ(find_program("/bin/sh"), "/bin/sh");
  EXPECT_EQ(find_program("/proc/self/status"), "");  // not executable
  EXPECT_EQ(find_program("no-such-program"), "");
  test::Variable path("PATH", "/no/such/folder:/bin");
  EXPECT_EQ(find_program("sh"), "/bin/sh");
  path.set("/no/such/folder");
  EXPECT_EQ(find_program("sh"), "");
}

}  // namespace
}  // namespace echelon
