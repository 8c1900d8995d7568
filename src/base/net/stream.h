#pragma once
#include <atomic>
#include <cstddef>
#include <span>
#include <type_traits>

#include "base/error.h"
#include "base/files/fs.h"

/// Sends and receives bytes over a connection whose socket never blocks; the calling thread waits. Failures
/// throw Error::of_system(): a broken connection says nothing about the data.
namespace echelon {

/// The longest wait of a thread while nothing is sent or received.
struct Patience {
  double seconds = 0;
  const std::atomic<bool>* ends = nullptr;  ///< becomes true: the wait ends
  Code code = Code::kCheckpoint;            ///< of errors
};

void send_all(const fs::Fd& socket, std::span<const std::byte> bytes, const Patience& patience);

/// At least one byte, at most all of `to`. Returns how many.
[[nodiscard]] std::size_t receive_some(const fs::Fd& socket, std::span<std::byte> to,
                                       const Patience& patience);

/// Sends a message as raw bytes: both ends are the same build.
template <class Message>
void send_message(const fs::Fd& socket, const Message& message, const Patience& patience) {
  static_assert(std::is_trivially_copyable_v<Message>);
  send_all(socket, std::as_bytes(std::span(&message, 1)), patience);
}

template <class Message>
[[nodiscard]] Message receive_message(const fs::Fd& socket, const Patience& patience) {
  static_assert(std::is_trivially_copyable_v<Message>);
  Message message;
  auto rest = std::as_writable_bytes(std::span(&message, 1));
  while (!rest.empty()) rest = rest.subspan(receive_some(socket, rest, patience));
  return message;
}

}  // namespace echelon
