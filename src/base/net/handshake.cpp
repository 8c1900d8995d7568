#include "base/net/handshake.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/files/own_file.h"
#include "base/net/stream.h"
#include "base/net/tcp.h"
#include "base/steady_time.h"
#include "base/str.h"

namespace echelon {
namespace {

struct Hello {
  Opening opening;
  Nonce nonce{};
};
struct Answer {
  Nonce nonce{};
  Sha256 mac{};
};
constexpr std::byte kWelcome{'W'};

Nonce new_nonce() {
  Nonce nonce{};
  while (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
  }  // interrupted early after boot
  return nonce;
}

/// The two sides prove different things: a message of one cannot be sent back to it.
Sha256 mac_of(std::string_view side, const Secret& secret, const Opening& opening, const Nonce& client,
              const Nonce& server) {
  std::vector<std::byte> message;
  const auto add = [&](std::span<const std::byte> bytes) {
    message.insert(message.end(), bytes.begin(), bytes.end());
  };
  add(std::as_bytes(std::span(side)));
  add(std::as_bytes(std::span(&opening, 1)));
  add(client);
  add(server);
  return hmac_sha256(std::as_bytes(std::span(secret)), message);
}
constexpr std::string_view kServer = "server";
constexpr std::string_view kClient = "client";

/// The client's side. Returns an empty text, or why this server is the wrong one. Throws if the connection
/// breaks, or nothing comes.
std::string prove(const fs::Fd& socket, const Calling& calling) {
  const Patience patience{calling.patience_s, calling.cancelled, Code::kPeer};
  const Hello hello{.opening = {.service = calling.service}, .nonce = new_nonce()};
  send_message(socket, hello, patience);
  const auto opening = receive_message<Opening>(socket, patience);
  if (opening.magic != hello.opening.magic) return "something else answers there";
  if (opening.version != Opening::kVersion) {
    return str("it speaks version ", opening.version, " of the protocol, this process version ",
               Opening::kVersion, ": all ranks of a run need the same build of Echelon");
  }
  if (opening.service != calling.service) return "another service answers there";
  const auto answer = receive_message<Answer>(socket, patience);
  if (!same_mac(answer.mac, mac_of(kServer, calling.secret, opening, hello.nonce, answer.nonce)))
    return "what answers there does not know the secret of this run";
  send_message(socket, mac_of(kClient, calling.secret, opening, hello.nonce, answer.nonce), patience);
  (void)receive_message<std::byte>(socket, patience);
  return "";
}

}  // namespace

Secret new_secret() {
  Secret secret{};
  for (auto at = secret.begin(); at != secret.end();) at = std::ranges::copy(fs::random_hex(), at).out;
  return secret;
}

ServerHandshake::ServerHandshake(fs::Fd socket, Service service, const Secret& secret)
    : socket_(std::move(socket)), opening_{.service = service}, secret_(secret) {}

bool ServerHandshake::send(const void* bytes, std::size_t size) const {
  // The first bytes of a connection always fit into the system's buffer.
  return ::send(socket_.get(), bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(size);
}

/// Returns false if the handshake has failed.
bool ServerHandshake::answer_hello() {
  Hello hello;
  static_assert(sizeof(hello) == sizeof(in_));
  std::memcpy(&hello, in_.data(), sizeof(hello));
  if (hello.opening.magic != opening_.magic) return false;
  if (!send(&opening_, sizeof(opening_)) || hello.opening != opening_) return false;
  Answer answer{.nonce = new_nonce()};
  answer.mac = mac_of(kServer, secret_, opening_, hello.nonce, answer.nonce);
  expected_ = mac_of(kClient, secret_, opening_, hello.nonce, answer.nonce);
  return send(&answer, sizeof(answer));
}

ServerHandshake::State ServerHandshake::advance() {
  while (true) {
    const std::size_t wanted = expected_ ? sizeof(Sha256) : sizeof(Hello);
    const ssize_t got = ::recv(socket_.get(), in_.data() + have_, wanted - have_, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return State::kRunning;
    if (got <= 0) return State::kFailed;
    have_ += static_cast<std::size_t>(got);
    if (have_ < wanted) continue;
    have_ = 0;
    if (!expected_) {
      if (!answer_hello()) return State::kFailed;
      continue;
    }
    Sha256 mac{};
    std::memcpy(mac.data(), in_.data(), mac.size());
    return same_mac(mac, *expected_) && send(&kWelcome, 1) ? State::kProven : State::kFailed;
  }
}

std::optional<fs::Fd> call_service(const ServiceCard& card, const Calling& calling, std::string& why) {
  constexpr std::chrono::milliseconds kPause{50};
  const std::vector<std::string> addresses = addresses_from_here(card);
  const double until = steady_now_s() + calling.patience_s;
  std::string wrong;  // says more than that a further address does not answer
  why = "its address is unknown";
  for (bool again = true; again; std::this_thread::sleep_for(kPause)) {
    again = false;
    for (const std::string& address : addresses) {
      auto socket = connect_to(address, card.port, calling.per_address_s, why);
      if (!socket) continue;
      try {
        const std::string who = prove(*socket, calling);
        if (who.empty()) return socket;
        wrong = str(address, " port ", card.port, ": ", who);
      } catch (const Error& e) {  // it may have no room just now
        why = str(address, " port ", card.port, ": ", e.what());
        again = steady_now_s() < until && (calling.cancelled == nullptr || !*calling.cancelled);
      }
    }
    if (!again) break;
  }
  if (!wrong.empty()) why = wrong;
  return std::nullopt;
}

}  // namespace echelon
