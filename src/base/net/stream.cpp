#include "base/net/stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/steady_time.h"
#include "base/str.h"

namespace echelon {
namespace {

void wait_for(const fs::Fd& socket, short events, const Patience& patience, const char* doing) {
  constexpr int kLook_ms = 50;
  const double until = steady_now_s() + patience.seconds;
  while (true) {
    pollfd query{.fd = socket.get(), .events = events, .revents = 0};
    if (poll(&query, 1, kLook_ms) > 0) return;
    if (patience.ends != nullptr && *patience.ends) throw Error::of_system(patience.code, "given up");
    if (steady_now_s() > until)
      throw Error::of_system(patience.code, str("no answer for ", patience.seconds, " s while ", doing));
  }
}

}  // namespace

void send_all(const fs::Fd& socket, std::span<const std::byte> bytes, const Patience& patience) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_for(socket, POLLOUT, patience, "sending");
    } else if (errno != EINTR) {
      throw Error::of_system(patience.code, str("sending: ", fs::reason(errno)));
    }
  }
}

std::size_t receive_some(const fs::Fd& socket, std::span<std::byte> to, const Patience& patience) {
  while (true) {
    const ssize_t got = ::recv(socket.get(), to.data(), to.size(), MSG_DONTWAIT);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) throw Error::of_system(patience.code, "the other side has closed the connection");
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_for(socket, POLLIN, patience, "receiving");
    } else if (errno != EINTR) {
      throw Error::of_system(patience.code, str("receiving: ", fs::reason(errno)));
    }
  }
}

}  // namespace echelon
