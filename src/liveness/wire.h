#pragma once
#include <cstddef>
#include <vector>

#include "base/files/fs.h"
#include "liveness/frame.h"

namespace echelon {

/// A TCP connection that carries frames. Never blocks: output that does not fit into the system's buffers is
/// queued, up to a limit. Not thread-safe.
class Wire {
 public:
  explicit Wire(fs::Fd socket);

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] bool has_output() const { return !out_.empty(); }
  /// True if the other end has closed or reset the connection.
  [[nodiscard]] bool closed() const { return closed_; }

  /// Queues a frame and writes what the system accepts. Dropped if the connection is broken or the queue is
  /// full.
  void send(const Frame& frame);
  /// Writes as much of the queue as the system accepts.
  void flush();
  /// Complete frames received so far; call when the socket is readable.
  [[nodiscard]] std::vector<Frame> receive();

 private:
  fs::Fd socket_;
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
  bool broken_ = false;  ///< sending has failed; received data may still be read
  bool closed_ = false;
};

}  // namespace echelon
