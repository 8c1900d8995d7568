#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/checksum/sha256.h"
#include "base/files/fs.h"
#include "base/net/service_card.h"

/// How two ranks of a run prove to each other that they know its secret, which is never sent. The client
/// sends a nonce. The server answers with its own, and with a MAC (HMAC-SHA256, the secret is the key) of
/// both. The client answers with another MAC of both, and the server with a last message. What follows on the
/// connection is neither encrypted nor signed.
namespace echelon {

/// Known to the ranks of one run: 128 random bits as hex digits.
using Secret = std::array<char, 32>;
[[nodiscard]] Secret new_secret();

/// The purpose of a connection, which the handshake proves too.
enum class Service : std::uint32_t { kHeartbeats = 1, kShards };

using Nonce = std::array<std::byte, 32>;

/// Begins what each side says first, in every version of the protocol.
struct Opening {
  static constexpr std::uint32_t kVersion = 1;  ///< also of what follows on the connection
  std::array<char, 8> magic{'E', 'C', 'H', 'E', 'L', 'O', 'N', '\n'};
  std::uint32_t version = kVersion;
  Service service{};
  bool operator==(const Opening&) const = default;
};

/// The server's side of one connection. Never waits.
class ServerHandshake {
 public:
  ServerHandshake(fs::Fd socket, Service service, const Secret& secret);

  enum class State { kRunning, kProven, kFailed };
  /// Goes on with what has arrived; call when the socket is readable.
  State advance();
  [[nodiscard]] int fd() const { return socket_.get(); }
  /// Returns the connection, with nothing read behind the handshake. Call it after kProven.
  [[nodiscard]] fs::Fd take() { return std::move(socket_); }

 private:
  [[nodiscard]] bool answer_hello();
  [[nodiscard]] bool send(const void* bytes, std::size_t size) const;

  fs::Fd socket_;
  Opening opening_;
  Secret secret_;
  std::array<std::byte, sizeof(Opening) + sizeof(Nonce)> in_{};  ///< of the message that is arriving
  std::size_t have_ = 0;
  std::optional<Sha256> expected_;  ///< from the client, once its hello has arrived
};

/// The options of a connecting client.
struct Calling {
  Service service{};
  Secret secret{};
  double per_address_s = 5;                      ///< to connect
  double patience_s = 10;                        ///< for the handshake; a server under attack is asked again
  const std::atomic<bool>* cancelled = nullptr;  ///< becomes true: gives up
};
/// Connects to the first address of `card` where a service that knows the secret answers. Returns nothing if
/// there is none; `why` is then the last reason. The socket never blocks.
[[nodiscard]] std::optional<fs::Fd> call_service(const ServiceCard& card, const Calling& calling,
                                                 std::string& why);

}  // namespace echelon
