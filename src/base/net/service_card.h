#pragma once
#include <string>
#include <tuple>
#include <vector>

namespace echelon {

/// Where a service of a rank listens, as its rank tells the others.
struct ServiceCard {
  int port = 0;         ///< 0: this rank serves nothing
  std::string network;  ///< within which loopback addresses are the same; empty: unknown
  std::vector<std::string> addresses;
  auto fields() { return std::tie(port, network, addresses); }
};

/// The card of a service of this process.
[[nodiscard]] ServiceCard own_card(int port);

/// Where this process reaches it: over loopback first, but only from the same network namespace of the same
/// machine. Elsewhere that port of the loopback address is anybody's.
[[nodiscard]] std::vector<std::string> addresses_from_here(const ServiceCard& card);

}  // namespace echelon
