#pragma once
#include <string>
#include <tuple>
#include <vector>

namespace echelon {

/// The address of a rank's service, as the rank publishes it to the others.
struct ServiceCard {
  int port = 0;         ///< 0: this rank serves nothing
  std::string network;  ///< within which loopback addresses are the same; empty: unknown
  std::vector<std::string> addresses;
  auto fields() { return std::tie(port, network, addresses); }
};

/// The card of a service of this process.
[[nodiscard]] ServiceCard own_card(int port);

/// Returns the addresses at which this process reaches the service. Loopback comes first, but only in the
/// same network namespace of the same machine: elsewhere that port of the loopback address may be anybody's.
[[nodiscard]] std::vector<std::string> addresses_from_here(const ServiceCard& card);

}  // namespace echelon
