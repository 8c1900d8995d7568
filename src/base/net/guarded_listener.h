#pragma once
#include <cstddef>
#include <list>
#include <set>
#include <string>
#include <vector>

#include "base/files/fs.h"
#include "base/mutex.h"
#include "base/net/handshake.h"
#include "base/net/service_card.h"
#include "base/net/tcp.h"

namespace echelon {

/// Listens for the ranks of a run. Others can connect too, but not get past the handshake, and what they may
/// hold until then is bounded:
/// - A connection that is not proven within two seconds is closed.
/// - There are places for unproven ones, in all and per address; if they are taken, the oldest gives way, so
///   that silent ones keep nobody out. Addresses that no rank has named share the places of one.
/// - The last descriptors of the process are kept back for files. Without any, accepting pauses.
/// A client that is turned away asks again (call_service()).
class GuardedListener {
 public:
  /// Places for connections that are not proven.
  struct Places {
    std::size_t in_all = 64;
    std::size_t per_address = 16;
  };
  /// Enough for all ranks at once: `hosts` of every rank, by rank.
  [[nodiscard]] static Places places_for(const std::vector<std::string>& hosts);

  /// Throws the error of listen_anywhere() for `what` and `remedy`.
  GuardedListener(Service service, const Secret& secret, Places places, std::string_view what,
                  std::string_view remedy);

  [[nodiscard]] int port() const { return listener_.port; }
  /// A descriptor for poll(): readable when accept() has something to do.
  [[nodiscard]] int fd() const { return events_.get(); }

  /// Handles what has arrived, without waiting. Returns the connections that are proven. Call it several
  /// times a second even if fd() is not readable, from one thread.
  [[nodiscard]] std::vector<fs::Fd> accept();

  /// Tells the addresses of all ranks, when they are known. Thread-safe.
  void expect(const std::vector<ServiceCard>& cards);

 private:
  struct Pending {
    ServerHandshake handshake;
    std::string address;  ///< empty: of no rank
    double since_s = 0;
  };
  /// Returns whether the handshake has ended, one way or the other.
  [[nodiscard]] bool is_over(Pending& one, std::vector<fs::Fd>& proven) const;
  void advance(std::vector<fs::Fd>& proven);
  /// Returns whether there may be another one.
  [[nodiscard]] bool accept_one(std::vector<fs::Fd>& proven);
  void admit(fs::Fd socket, const std::string& address, std::vector<fs::Fd>& proven);
  void listen(bool yes);
  [[nodiscard]] std::string place_of(const std::string& address) const;

  Service service_;
  Secret secret_;
  Places places_;
  Listener listener_;
  fs::Fd events_;               ///< epoll: the listening socket and all pending ones
  std::list<Pending> pending_;  ///< oldest first
  double paused_until_s_ = 0;
  mutable Mutex mutex_;
  std::set<std::string> named_ ECHELON_GUARDED_BY(mutex_);
};

}  // namespace echelon
