#pragma once
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <thread>

#include "base/error.h"
#include "base/net/handshake.h"
#include "base/net/service_card.h"
#include "base/net/tcp.h"

namespace echelon::test {

/// The service of `card`, called over loopback only.
inline ServiceCard over_loopback(ServiceCard card) {
  card.addresses.clear();
  return card;
}

/// What a client is once it has proven that it knows the secret. Throws where it does not.
inline fs::Fd proven(fs::Fd client, const Secret& secret) {
  ServerHandshake handshake(std::move(client), Service::kShards, secret);
  while (handshake.advance() == ServerHandshake::State::kRunning) std::this_thread::yield();
  return handshake.take();
}

/// A server that does what it is told to with one client after another.
class Impostor {
 public:
  explicit Impostor(std::function<void(fs::Fd)> act)
      : listener_(listen_anywhere("test", "none")),
        thread_([this, act = std::move(act)](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            pollfd query{.fd = listener_.socket.get(), .events = POLLIN, .revents = 0};
            if (poll(&query, 1, 10) <= 0) continue;
            try {
              act(fs::Fd(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_NONBLOCK)));
            } catch (const Error&) {  // the client has gone
            }
          }
        }) {}
  [[nodiscard]] ServiceCard card() const { return over_loopback(own_card(listener_.port)); }

 private:
  Listener listener_;
  std::jthread thread_;
};

}  // namespace echelon::test
