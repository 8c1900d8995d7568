#include "liveness/wire.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace echelon {
namespace {

/// Bytes. Limits the memory that a peer that does not read can occupy; further frames are dropped.
constexpr std::size_t kMostWaiting = 64 * sizeof(Frame);

}  // namespace

Wire::Wire(fs::Fd socket) : socket_(std::move(socket)) {
  const int yes = 1;
  // Frames are small; Nagle's algorithm would delay them and spoil the round-trip times.
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

void Wire::send(const Frame& frame) {
  if (closed_ || broken_ || out_.size() > kMostWaiting) return;
  const auto* bytes = reinterpret_cast<const std::byte*>(&frame);
  out_.insert(out_.end(), bytes, bytes + sizeof(frame));
  flush();
}

void Wire::flush() {
  while (!out_.empty() && !closed_) {
    const ssize_t sent = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      broken_ = true;  // data that the peer sent before may still be readable
      out_.clear();
      return;
    }
    out_.erase(out_.begin(), out_.begin() + sent);
  }
}

std::vector<Frame> Wire::receive() {
  std::array<std::byte, 16384> piece;
  while (!closed_) {
    const ssize_t got = ::recv(socket_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (got <= 0) {
      closed_ = true;
      break;
    }
    in_.insert(in_.end(), piece.begin(), piece.begin() + got);
    if (in_.size() > kMostWaiting) break;  // the rest is read by the next call
  }
  std::vector<Frame> frames(in_.size() / sizeof(Frame));
  for (std::size_t n = 0; n < frames.size(); ++n) {
    std::memcpy(static_cast<void*>(&frames[n]), in_.data() + n * sizeof(Frame), sizeof(Frame));
    // A received text may lack its terminator.
    frames[n].text[sizeof(frames[n].text) - 1] = '\0';
    frames[n].sign.now.unit[sizeof(frames[n].sign.now.unit) - 1] = '\0';
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(frames.size() * sizeof(Frame)));
  return frames;
}

}  // namespace echelon
