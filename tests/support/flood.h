#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/fs.h"

namespace echelon::test {

/// What strangers do once they are connected.
enum class Stranger { kSilent, kSlow, kGarbage, kHalfAHello, kClosing };
inline constexpr Stranger kStrangers[] = {Stranger::kSilent, Stranger::kSlow, Stranger::kGarbage,
                                          Stranger::kHalfAHello, Stranger::kClosing};

/// Connections of strangers to a port of this machine, held until the end.
class Flood {
 public:
  /// `from`: loopback address that they come from.
  Flood(int port, int count, Stranger what = Stranger::kSilent, const char* from = "127.0.0.1") {
    for (int i = 0; i < count; ++i) add(port, what, from);
  }
  [[nodiscard]] std::size_t made() const { return sockets_.size(); }
  /// Those that the other side has not closed.
  [[nodiscard]] std::size_t open() const {
    std::size_t open = 0;
    for (const fs::Fd& socket : sockets_) {
      char byte = 0;
      const ssize_t got = ::recv(socket.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
      if (got > 0 || (got < 0 && errno == EAGAIN)) ++open;
    }
    return open;
  }

 private:
  static sockaddr_in address(const char* text, int port) {
    sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(static_cast<std::uint16_t>(port))};
    inet_pton(AF_INET, text, &address.sin_addr);
    return address;
  }
  void add(int port, Stranger what, const char* from) {
    fs::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in mine = address(from, 0);
    const sockaddr_in theirs = address("127.0.0.1", port);
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&mine), sizeof(mine)) != 0 ||
        ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&theirs), sizeof(theirs)) != 0)
      return;
    const std::string garbage(4096, 'x');
    const std::string_view said = what == Stranger::kSlow         ? "E"
                                  : what == Stranger::kGarbage    ? std::string_view(garbage)
                                  : what == Stranger::kHalfAHello ? "ECHELON\n\1"
                                                                  : "";
    (void)::send(socket.get(), said.data(), said.size(), MSG_NOSIGNAL);
    if (what != Stranger::kClosing) sockets_.push_back(std::move(socket));
  }

  std::vector<fs::Fd> sockets_;
};

}  // namespace echelon::test
