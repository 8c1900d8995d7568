#include "base/net/service_card.h"

#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/net/tcp.h"
#include "base/str.h"

namespace echelon {
namespace {

constexpr std::string_view kUnknown = "-";

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

std::string card_text(const ServiceCard& card) {
  std::string text = str(card.port, ' ', card.network.empty() ? kUnknown : card.network);
  for (const std::string& address : card.addresses) text += ' ' + address;
  return text;
}

ServiceCard parse_card(const std::string& text) {
  std::istringstream words(text);
  ServiceCard card;
  if (!(words >> card.port >> card.network))
    throw Error(Code::kPeer, "the address of a rank's service cannot be read");
  if (card.network == kUnknown) card.network.clear();
  for (std::string address; words >> address;) card.addresses.push_back(address);
  return card;
}

}  // namespace echelon
