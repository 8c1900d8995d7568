#include "app/submit/program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/str.h"

namespace echelon::submit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(300);
constexpr std::size_t kMostOutput = std::size_t{4} << 20;

/// This process's environment as a program started by it should see it.
std::vector<char*> environment(const std::vector<std::string>& without) {
  std::vector<char*> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    // A job's own variables would be handed on to the new job; these are settings.
    const bool of_a_job =
        name.starts_with("SLURM_") && name != "SLURM_CONF" && !name.starts_with("SLURM_PMIX_");
    if (!of_a_job && std::find(without.begin(), without.end(), name) == without.end()) kept.push_back(*entry);
  }
  kept.push_back(nullptr);
  return kept;
}

struct Pipe {
  fs::Fd read;
  fs::Fd write;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw Error(Code::kEnvironment, str("cannot make a pipe: ", fs::reason(errno)));
    read = fs::Fd(ends[0]);
    write = fs::Fd(ends[1]);
  }
};

pid_t spawn(const std::vector<std::string>& command, const std::vector<std::string>& without, const Pipe& out,
            const Pipe& err) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> variables = environment(without);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err.write.get(), STDERR_FILENO);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, arguments[0], &files, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw Error(Code::kEnvironment, str("cannot start ", command[0], ": ", fs::reason(error)));
  return child;
}

/// Reads both pipes to their ends. False: too much, or not in time.
bool read_all(const Pipe& out, const Pipe& err, CommandResult& result) {
  const auto deadline = Clock::now() + kPatience;
  std::array<pollfd, 2> watched{pollfd{out.read.get(), POLLIN, 0}, pollfd{err.read.get(), POLLIN, 0}};
  const std::array<std::string*, 2> texts{&result.out, &result.err};
  while (watched[0].fd >= 0 || watched[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    ::poll(watched.data(), watched.size(), static_cast<int>(left));
    for (std::size_t n = 0; n < watched.size(); ++n) {
      if (watched[n].fd < 0 || watched[n].revents == 0) continue;
      std::array<char, 4096> buffer{};
      const ssize_t size = ::read(watched[n].fd, buffer.data(), buffer.size());
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) {
        watched[n].fd = -1;  // poll leaves it alone
      } else {
        texts[n]->append(buffer.data(), static_cast<std::size_t>(size));
        if (texts[n]->size() > kMostOutput) return false;
      }
    }
  }
  return true;
}

}  // namespace

CommandResult run_command(const std::vector<std::string>& command, const std::vector<std::string>& without) {
  Pipe out;
  Pipe err;
  const pid_t child = spawn(command, without, out, err);
  out.write = fs::Fd();
  err.write = fs::Fd();
  CommandResult result;
  const bool whole = read_all(out, err, result);
  if (!whole) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!whole)
    throw Error(Code::kEnvironment, str(command[0], " was stopped: it did not end within ", kPatience.count(),
                                        " s, or printed without end"));
  result.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace echelon::submit
