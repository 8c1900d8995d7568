#include "base/net/service_card.h"

#include <sys/stat.h>

#include <fstream>

#include "base/net/tcp.h"
#include "base/str.h"

namespace echelon {
namespace {

std::string own_network() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat space {};
  if (boot.empty() || ::stat("/proc/self/ns/net", &space) != 0) return "";
  return str(boot, '/', space.st_ino);
}

}  // namespace

ServiceCard own_card(int port) {
  return {.port = port, .network = own_network(), .addresses = own_addresses()};
}

std::vector<std::string> addresses_from_here(const ServiceCard& card) {
  std::vector<std::string> addresses;
  if (!card.network.empty() && card.network == own_network()) addresses.emplace_back("127.0.0.1");
  addresses.insert(addresses.end(), card.addresses.begin(), card.addresses.end());
  return addresses;
}

}  // namespace echelon
