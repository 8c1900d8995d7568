#include "base/net/guarded_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>

#include "base/error.h"
#include "base/process/descriptors.h"
#include "base/steady_time.h"

namespace echelon {
namespace {

constexpr double kHello_s = 2;
constexpr double kPause_s = 0.1;  // of accepting, without descriptors
constexpr int kMostAtOnce = 64;   // accepted in one call: its thread has other things to do

void watch(const fs::Fd& events, int operation, int fd, std::uint32_t what) {
  epoll_event event{.events = what, .data = {.fd = fd}};
  (void)::epoll_ctl(events.get(), operation, fd, &event);
}

/// IPv4 in its own spelling, also where it came through an IPv6 socket.
std::string text_of(const sockaddr_storage& storage) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text.data(), text.size());
    return text.data();
  }
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6);
  inet_ntop(mapped ? AF_INET : AF_INET6, mapped ? &v6.s6_addr[12] : v6.s6_addr, text.data(), text.size());
  return text.data();
}

}  // namespace

GuardedListener::Places GuardedListener::places_for(const std::vector<std::string>& hosts) {
  std::map<std::string, std::size_t> ranks;
  Places places;
  std::size_t most = 0;
  for (const std::string& host : hosts) most = std::max(most, ++ranks[host]);
  return {.in_all = places.in_all + hosts.size(), .per_address = places.per_address + most};
}

GuardedListener::GuardedListener(Service service, const Secret& secret, Places places, std::string_view what,
                                 std::string_view remedy)
    : service_(service),
      secret_(secret),
      places_(places),
      listener_(listen_anywhere(what, remedy)),
      events_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!events_.valid())
    throw Error(Code::kEnvironment, what, ": epoll_create1: ", fs::reason(errno), "; ", remedy);
  watch(events_, EPOLL_CTL_ADD, listener_.socket.get(), EPOLLIN);
}

void GuardedListener::expect(const std::vector<ServiceCard>& cards) {
  const Lock lock(mutex_);
  for (const ServiceCard& card : cards) named_.insert(card.addresses.begin(), card.addresses.end());
}

std::string GuardedListener::place_of(const std::string& address) const {
  const Lock lock(mutex_);
  const bool local = address == "::1" || address == "127.0.0.1";
  return named_.empty() || local || named_.contains(address) ? address : "";
}

void GuardedListener::listen(bool yes) {
  watch(events_, EPOLL_CTL_MOD, listener_.socket.get(), yes ? EPOLLIN : 0U);
  paused_until_s_ = yes ? 0 : steady_now_s() + kPause_s;
}

bool GuardedListener::is_over(Pending& one, std::vector<fs::Fd>& proven) const {
  const auto state = one.handshake.advance();
  if (state == ServerHandshake::State::kProven) {
    watch(events_, EPOLL_CTL_DEL, one.handshake.fd(), 0);
    proven.push_back(one.handshake.take());
  }
  return state != ServerHandshake::State::kRunning;
}

void GuardedListener::advance(std::vector<fs::Fd>& proven) {
  std::array<epoll_event, 256> found{};
  const int count = ::epoll_wait(events_.get(), found.data(), static_cast<int>(found.size()), 0);
  std::set<int> ready;
  for (int i = 0; i < count; ++i) ready.insert(found[static_cast<std::size_t>(i)].data.fd);
  // Data that have arrived count, also if this thread did not run in time to see them.
  const bool seen_all = count < static_cast<int>(found.size());
  const double now = steady_now_s();
  pending_.remove_if([&](Pending& one) {
    if (ready.contains(one.handshake.fd())) return is_over(one, proven);
    return seen_all && now - one.since_s > kHello_s;
  });
}

void GuardedListener::admit(fs::Fd socket, const std::string& address, std::vector<fs::Fd>& proven) {
  const int fd = socket.get();
  Pending one{ServerHandshake(std::move(socket), service_, secret_), place_of(address), steady_now_s()};
  if (is_over(one, proven)) return;
  const bool scarce = is_kept_for_files(fd);
  const auto of_address = [&](const Pending& other) { return other.address == one.address; };
  const auto count = std::ranges::count_if(pending_, of_address);
  if (static_cast<std::size_t>(count) >= places_.per_address) {
    pending_.erase(std::ranges::find_if(pending_, of_address));
  } else if (!pending_.empty() && (scarce || pending_.size() >= places_.in_all)) {
    pending_.pop_front();
  }
  if (scarce) return;  // its descriptor is given back, too
  watch(events_, EPOLL_CTL_ADD, fd, EPOLLIN);
  pending_.push_back(std::move(one));
}

bool GuardedListener::accept_one(std::vector<fs::Fd>& proven) {
  sockaddr_storage from{};
  socklen_t length = sizeof(from);
  fs::Fd socket(::accept4(listener_.socket.get(), reinterpret_cast<sockaddr*>(&from), &length,
                          SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.valid()) {
    admit(std::move(socket), text_of(from), proven);
    return true;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
  if (errno == EINTR || errno == ECONNABORTED) return true;
  // No descriptors or no memory: one gives way, and poll() must not report the listening socket meanwhile.
  if (!pending_.empty()) pending_.pop_front();
  listen(false);
  return false;
}

std::vector<fs::Fd> GuardedListener::accept() {
  std::vector<fs::Fd> proven;
  advance(proven);
  if (paused_until_s_ > steady_now_s()) return proven;
  if (paused_until_s_ > 0) listen(true);
  for (int accepted = 0; accepted < kMostAtOnce && accept_one(proven); ++accepted) {
  }
  return proven;
}

}  // namespace echelon
