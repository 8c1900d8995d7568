#include "base/process/program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/not_copied.h"
#include "base/steady_time.h"
#include "base/str.h"

namespace echelon {
namespace {

using Clock = std::chrono::steady_clock;

/// Settings of the child: its streams and, with `own_group`, a new process group, so that a kill at the
/// deadline reaches what it started, too.
class SpawnPlan : NotCopied {
 public:
  SpawnPlan(int out, int err, bool own_group) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, err, STDERR_FILENO);
    posix_spawnattr_init(&attributes_);
    if (own_group) posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes_, 0);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  int spawn(pid_t& child, const std::vector<std::string>& argv,
            const std::vector<std::string>& environment) const {
    const std::vector<char*> words = for_exec(argv);
    const std::vector<char*> variables = for_exec(environment);
    return ::posix_spawnp(&child, words[0], &actions_, &attributes_, words.data(),
                          environment.empty() ? environ : variables.data());
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

/// When a program is to be killed.
class End {
 public:
  End(Clock::time_point deadline, std::stop_token stop) : deadline_(deadline), stop_(std::move(stop)) {}

  [[nodiscard]] bool has_come() const { return Clock::now() >= deadline_ || stop_.stop_requested(); }
  [[nodiscard]] bool may_come() const {
    return deadline_ != Clock::time_point::max() || stop_.stop_possible();
  }
  /// For poll(2): until has_come() is worth a look.
  [[nodiscard]] int milliseconds() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, stop_.stop_possible() ? 100 : 60000));
  }

 private:
  Clock::time_point deadline_;
  std::stop_token stop_;
};

/// Reads one stream of the child into a text.
class Stream {
 public:
  using Reader = std::function<void(std::string_view)>;

  Stream(const fs::Fd& fd, std::string& text, std::size_t most, Reader reader = {})
      : fd_(fd.get()), text_(text), most_(most), reader_(std::move(reader)) {}

  /// -1 after the end of the stream; poll(2) ignores that.
  [[nodiscard]] int fd() const { return fd_; }
  /// Was there more output than the text may hold?
  [[nodiscard]] bool is_over() const { return over_; }
  /// Reads what is available. Output beyond the limit is read and dropped, so that the child does not block
  /// on a full pipe.
  void drain() {
    std::array<char, 4096> buffer{};
    const ssize_t got = ::read(fd_, buffer.data(), buffer.size());
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) fd_ = -1;
    if (got <= 0) return;
    if (reader_) reader_({buffer.data(), static_cast<std::size_t>(got)});
    const std::size_t kept = std::min(static_cast<std::size_t>(got), most_ - text_.size());
    text_.append(buffer.data(), kept);
    over_ = over_ || kept < static_cast<std::size_t>(got);
  }

 private:
  int fd_;
  std::string& text_;
  std::size_t most_;
  Reader reader_;
  bool over_ = false;
};

/// Reads both streams to their ends, until `end`, or until there is too much output.
void read_streams(Stream out, Stream err, const End& end, bool killed_beyond, ProgramRun& run) {
  while (out.fd() >= 0 || err.fd() >= 0) {
    run.timed_out = end.has_come();
    run.overflowed = killed_beyond && (out.is_over() || err.is_over());
    if (run.timed_out || run.overflowed) return;
    std::array<pollfd, 2> awaited{{{out.fd(), POLLIN, 0}, {err.fd(), POLLIN, 0}}};
    if (::poll(awaited.data(), awaited.size(), end.milliseconds()) < 0) continue;
    if (awaited[0].revents != 0) out.drain();
    if (awaited[1].revents != 0) err.drain();
  }
}

/// Waits for the child; false where `end` came first. Looks less often at a child that runs for long.
bool reap(pid_t child, const End& end, int& status) {
  constexpr useconds_t kFirstPause_us = 2000;
  constexpr useconds_t kLongestPause_us = 50'000;
  for (useconds_t pause = kFirstPause_us;; pause = std::min(pause + pause / 8, kLongestPause_us)) {
    const pid_t ended = ::waitpid(child, &status, end.may_come() ? WNOHANG : 0);
    if (ended == child || (ended < 0 && errno != EINTR)) return true;
    if (end.has_come()) return false;
    if (end.may_come()) ::usleep(pause);
  }
}

Clock::time_point after(Clock::time_point start, double seconds) {
  return std::isinf(seconds)
             ? Clock::time_point::max()
             : start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error(Code::kEnvironment, "cannot make a pipe: ", fs::reason(errno));
  return {fs::Fd(ends[0]), fs::Fd(ends[1])};
}

std::vector<char*> for_exec(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

ProgramRun run_program(const std::vector<std::string>& argv, const ProgramOptions& options) {
  const auto start = Clock::now();
  const End end(after(start, options.deadline_s), options.stop);
  const bool kept = options.output == ProgramOptions::Output::kKept;
  const bool inherited = options.output == ProgramOptions::Output::kInherited;
  Pipe out = kept ? make_pipe() : Pipe{};
  Pipe err = kept ? make_pipe() : Pipe{};
  ProgramRun run;
  pid_t child = 0;
  const SpawnPlan plan(kept        ? out.write.get()
                       : inherited ? STDOUT_FILENO
                                   : STDERR_FILENO,
                       kept ? err.write.get() : STDERR_FILENO, options.own_group);
  const int fault = plan.spawn(child, argv, options.environment);
  if (fault == ENOENT || fault == EACCES || fault == ENOTDIR) return run;
  if (fault != 0) throw Error(Code::kEnvironment, "cannot start '", argv[0], "': ", fs::reason(fault));
  out.write = fs::Fd();
  err.write = fs::Fd();
  run.found = true;
  if (options.on_start) options.on_start(child);
  read_streams({out.read, run.out, options.most_output, options.on_output},
               {err.read, run.err, options.most_output}, end, options.killed_beyond, run);
  int status = 0;
  run.timed_out = run.timed_out || (!run.overflowed && !reap(child, end, status));
  if (run.timed_out || run.overflowed) {
    ::kill(options.own_group ? -child : child, SIGKILL);
    (void)reap(child, End(Clock::time_point::max(), {}), status);
  }
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  run.seconds = seconds_since(start);
  return run;
}

std::string ProgramRun::trouble(const std::string& program) const {
  if (!found) return str(program, " is not in PATH");
  if (timed_out) return str(program, " did not answer within ", static_cast<int>(seconds + 0.5), " s");
  if (overflowed) return str(program, " prints without end");
  const std::string& said = err.empty() ? out : err;
  const std::string line = said.substr(0, said.find('\n'));
  return str(program, " exits with ", status, line.empty() ? "" : ": ", printable(line, 160));
}

}  // namespace echelon
