#include "app/output_relay.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/error.h"
#include "base/str.h"

namespace echelon::app {
namespace {

/// False when nobody takes it any more.
bool write_all(int stream, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(stream, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

void pass_on(int from, int to) {
  std::array<char, 65536> buffer{};
  bool taken = true;
  for (;;) {
    const ssize_t n = ::read(from, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    taken = taken && write_all(to, buffer.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace

OutputRelay::OutputRelay(int stream) : stream_(stream) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error(Code::kEnvironment, str("cannot make a pipe: ", fs::reason(errno)));
  exit_ = fs::Fd(ends[0]);
  entry_ = fs::Fd(ends[1]);
}

OutputRelay::~OutputRelay() {
  finish();
}

void OutputRelay::keep_reader() const {
  fcntl(exit_.get(), F_SETFD, 0);
}

void OutputRelay::begin() {
  entry_ = fs::Fd();
  thread_ = std::thread([from = exit_.get(), to = stream_] { pass_on(from, to); });
}

void OutputRelay::finish() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace echelon::app
