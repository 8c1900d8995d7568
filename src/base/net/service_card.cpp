#include "base/net/service_card.h"

#include "base/net/tcp.h"
#include "base/process/process.h"

namespace echelon {

ServiceCard own_card(int port) {
  return {.port = port, .network = process_space("net"), .addresses = own_addresses()};
}

std::vector<std::string> addresses_from_here(const ServiceCard& card) {
  std::vector<std::string> addresses;
  if (!card.network.empty() && card.network == process_space("net")) addresses.emplace_back("127.0.0.1");
  addresses.insert(addresses.end(), card.addresses.begin(), card.addresses.end());
  return addresses;
}

}  // namespace echelon
