#include "base/process/program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/str.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOutput = std::size_t{1} << 20;

struct Pipe {
  fs::Fd read;
  fs::Fd write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error(Code::kEnvironment, str("cannot make a pipe: ", fs::reason(errno)));
  return {fs::Fd(ends[0]), fs::Fd(ends[1])};
}

/// Settings of the child: its streams, and a new process group, so that a kill at the deadline reaches what
/// it started, too.
class SpawnPlan {
 public:
  SpawnPlan(int out, int err) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, err, STDERR_FILENO);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes_, 0);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  int spawn(pid_t& child, const std::vector<std::string>& argv) const {
    std::vector<char*> arguments;
    for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    return ::posix_spawnp(&child, arguments[0], &actions_, &attributes_, arguments.data(), environ);
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

/// Reads what is available; false at the end of the stream. Output beyond the limit is read and dropped, so
/// that the child does not block on a full pipe.
bool drain(const fs::Fd& fd, std::string& text) {
  std::array<char, 4096> buffer{};
  const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (text.size() < kMostOutput) text.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0;
}

/// Reads both streams to their ends; false where the deadline came first.
bool read_streams(const Pipe& out, const Pipe& err, Clock::time_point deadline, ProgramRun& run) {
  std::array<pollfd, 2> streams{{{out.read.get(), POLLIN, 0}, {err.read.get(), POLLIN, 0}}};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    if (::poll(streams.data(), streams.size(), static_cast<int>(left)) < 0 && errno != EINTR) return false;
    if (streams[0].fd >= 0 && streams[0].revents != 0 && !drain(out.read, run.out)) streams[0].fd = -1;
    if (streams[1].fd >= 0 && streams[1].revents != 0 && !drain(err.read, run.err)) streams[1].fd = -1;
  }
  return true;
}

/// Waits for the child; false where the deadline came first.
bool reap(pid_t child, Clock::time_point deadline, int& status) {
  for (;;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) return true;
    if (Clock::now() >= deadline) return false;
    ::usleep(2000);
  }
}

}  // namespace

ProgramRun run_program(const std::vector<std::string>& argv, double deadline_s) {
  const auto start = Clock::now();
  const auto deadline =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(deadline_s));
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  ProgramRun run;
  pid_t child = 0;
  const int fault = SpawnPlan(out.write.get(), err.write.get()).spawn(child, argv);
  if (fault == ENOENT || fault == EACCES || fault == ENOTDIR) return run;
  if (fault != 0) throw Error(Code::kEnvironment, str("cannot start '", argv[0], "': ", fs::reason(fault)));
  out.write = fs::Fd();
  err.write = fs::Fd();
  run.found = true;
  int status = 0;
  run.timed_out = !read_streams(out, err, deadline, run) || !reap(child, deadline, status);
  if (run.timed_out) {
    ::kill(-child, SIGKILL);
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  run.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return run;
}

std::string ProgramRun::trouble(const std::string& program) const {
  if (!found) return str(program, " is not in PATH");
  if (timed_out) return str(program, " did not answer within ", static_cast<int>(seconds + 0.5), " s");
  const std::string& said = err.empty() ? out : err;
  const std::string line = said.substr(0, said.find('\n'));
  return str(program, " exits with ", status, line.empty() ? "" : ": ", printable(line, 160));
}

}  // namespace echelon
