#include "base/net/tcp.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "base/error.h"
#include "base/str.h"

namespace echelon {
namespace {

// Bridges of containers and virtual machines have addresses that other nodes cannot reach, often the same
// ones on every node.
bool is_bridge(std::string_view name) {
  constexpr std::array<std::string_view, 5> kPrefixes{"docker", "virbr", "veth", "br-", "cni"};
  return std::ranges::any_of(
      kPrefixes, [name](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; });
}

/// An IPv4 or IPv6 address in the type that the socket calls take.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

std::optional<Address> parse(const std::string& text, int port) {
  Address address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<std::uint16_t>(port));
    address.length = sizeof(sockaddr_in);
    return address;
  }
  if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) != 1) return std::nullopt;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(static_cast<std::uint16_t>(port));
  address.length = sizeof(sockaddr_in6);
  return address;
}

/// Returns an empty text, or why the connection failed.
std::string try_connect(const fs::Fd& socket, const Address& address, double patience_s) {
  const auto* raw = reinterpret_cast<const sockaddr*>(&address.storage);
  if (::connect(socket.get(), raw, address.length) == 0) return "";
  if (errno != EINPROGRESS) return fs::reason(errno);
  pollfd query{.fd = socket.get(), .events = POLLOUT, .revents = 0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_s);
  int ready = -1;
  while (ready < 0) {  // interrupted by a signal: wait again
    const std::chrono::duration<double> left = deadline - std::chrono::steady_clock::now();
    ready = poll(&query, 1, std::max(0, static_cast<int>(left.count() * 1000)));
    if (ready < 0 && errno != EINTR) return fs::reason(errno);
  }
  if (ready == 0) return "no answer";
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error == 0 ? "" : fs::reason(error);
}

}  // namespace

Listener listen_anywhere(std::string_view what, std::string_view remedy) {
  const auto failed = [&](const char* call) {
    return Error(Code::kEnvironment, what, ": ", call, ": ", fs::reason(errno), "; ", remedy);
  };
  Listener listener{.socket = fs::Fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))};
  Address any;
  if (listener.socket.valid()) {
    const int no = 0;  // accept IPv4 peers, too
    setsockopt(listener.socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    any = *parse("::", 0);
  } else {  // a machine without IPv6
    listener.socket = fs::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    any = *parse("0.0.0.0", 0);
  }
  if (!listener.socket.valid()) throw failed("socket");
  auto* raw = reinterpret_cast<sockaddr*>(&any.storage);
  if (::bind(listener.socket.get(), raw, any.length) != 0) throw failed("bind");
  if (::listen(listener.socket.get(), 1024) != 0) throw failed("listen");
  if (::getsockname(listener.socket.get(), raw, &any.length) != 0) throw failed("getsockname");
  listener.port = any.storage.ss_family == AF_INET6
                      ? ntohs(reinterpret_cast<sockaddr_in6*>(&any.storage)->sin6_port)
                      : ntohs(reinterpret_cast<sockaddr_in*>(&any.storage)->sin_port);
  return listener;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> first;
  std::vector<std::string> later;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return first;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0 ||
        (entry->ifa_flags & IFF_LOOPBACK) != 0 || is_bridge(entry->ifa_name))
      continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto* v4 = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      if (inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size()) != nullptr)
        first.emplace_back(text.data());
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto* v6 = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) continue;  // needs an interface to be reachable
      if (inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size()) != nullptr)
        later.emplace_back(text.data());
    }
  }
  freeifaddrs(list);
  first.insert(first.end(), later.begin(), later.end());
  return first;
}

std::optional<fs::Fd> connect_to(const std::string& address, int port, double patience_s, std::string& why) {
  const auto parsed = parse(address, port);
  if (!parsed) return std::nullopt;
  fs::Fd socket(::socket(parsed->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const std::string refused = socket.valid() ? try_connect(socket, *parsed, patience_s) : fs::reason(errno);
  if (refused.empty()) return socket;
  why = str(address, " port ", port, ": ", refused);
  return std::nullopt;
}

}  // namespace echelon
