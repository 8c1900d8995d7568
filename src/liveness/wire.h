#pragma once
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/files/fs.h"
#include "liveness/frame.h"

namespace echelon {

/// A TCP connection that carries frames, never blocking: what does not fit into the system's buffers waits
/// here. One thread.
class Wire {
 public:
  explicit Wire(fs::Fd socket);

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] bool has_output() const { return !out_.empty(); }
  /// The other end has closed, reset or broken the connection.
  [[nodiscard]] bool closed() const { return closed_; }

  void send(const Frame& frame);
  /// Writes what the system takes.
  void flush();
  /// Frames that have come in full; call when readable.
  [[nodiscard]] std::vector<Frame> receive();

 private:
  fs::Fd socket_;
  std::vector<std::byte> in_;
  std::deque<std::byte> out_;
  bool broken_ = false;  ///< nothing can be sent any more
  bool closed_ = false;
};

/// A listening TCP socket on a port of the system's choice, all addresses. Throws Error(kEnvironment).
struct Listener {
  fs::Fd socket;
  int port = 0;
};
[[nodiscard]] Listener listen_anywhere();

/// Addresses of this machine that others may reach, best first; without loopback and those of container and
/// virtual-machine bridges.
[[nodiscard]] std::vector<std::string> own_addresses();

/// Connects to the first of `addresses` that answers; each gets `patience_s`. Nothing when none does; `why`
/// tells the last reason.
[[nodiscard]] std::optional<fs::Fd> connect_to(const std::vector<std::string>& addresses, int port,
                                               double patience_s, std::string& why);

}  // namespace echelon
