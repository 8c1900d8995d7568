#include "app/launcher/output_relay.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <sstream>

#include "base/process/process.h"
#include "base/str.h"

namespace echelon::app {
namespace {

/// "PID OUT ERR": the launcher and two of its descriptors.
constexpr const char* kOffer = "ECHELON_RANK_OUTPUT";

void replace(int stream, pid_t owner, int descriptor) {
  const fs::Fd offered(::open(str("/proc/", owner, "/fd/", descriptor).c_str(), O_WRONLY | O_CLOEXEC));
  if (offered.valid()) ::dup2(offered.get(), stream);
}

}  // namespace

void OutputRelay::keep_ends() const {
  for (const fs::Fd* end : {&pipe_.read, &pipe_.write}) fcntl(end->get(), F_SETFD, 0);
}

void OutputRelay::begin() {
  pipe_.write = fs::Fd();
}

pollfd OutputRelay::awaited() const {
  if (pending_.empty()) return {.fd = pipe_.read.get(), .events = POLLIN, .revents = 0};
  return {.fd = stream_, .events = POLLOUT, .revents = 0};
}

void OutputRelay::pass_on() {
  if (pending_.empty()) {
    std::array<char, PIPE_BUF> taken{};  // a pipe that is ready accepts PIPE_BUF bytes without blocking
    const ssize_t n = ::read(pipe_.read.get(), taken.data(), taken.size());
    const bool ended = n == 0 || (n < 0 && errno != EINTR);
    if (ended) pipe_.read = fs::Fd();
    const std::string_view bytes(taken.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
    if (!read_) return;
    if (talk_ == Talk::kPassed)
      pending_ = bytes;
    else
      pending_ = ended ? filter_.rest() : filter_.pass(bytes);
    return;
  }
  const ssize_t n = ::write(stream_, pending_.data(), std::min<std::size_t>(pending_.size(), PIPE_BUF));
  if (n >= 0) pending_.erase(0, static_cast<std::size_t>(n));
  if (n >= 0 || errno == EINTR || errno == EAGAIN) return;
  // The stream is broken: discard, but keep reading, so that the ranks do not block on a full pipe.
  read_ = false;
  pending_.clear();
}

void offer_to_ranks(const OutputRelay& out, const OutputRelay& err) {
  ::setenv(kOffer, str(::getpid(), " ", out.reader(), " ", err.reader()).c_str(), 1);
}

void use_offered_output() {
  const char* offer = std::getenv(kOffer);
  if (offer == nullptr) return;
  std::istringstream words(offer);
  pid_t launcher = 0;
  int out = -1;
  int err = -1;
  words >> launcher >> out >> err;
  ::unsetenv(kOffer);  // processes started by this one must not use it
  // Only a rank of the launcher's own mpirun may follow the offer: the variable may have been inherited.
  const auto mpirun = process_info(::getppid());
  if (!words || !mpirun || mpirun->parent != launcher) return;
  replace(STDOUT_FILENO, launcher, out);
  replace(STDERR_FILENO, launcher, err);
}

}  // namespace echelon::app
