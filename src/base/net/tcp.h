#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/fs.h"

/// TCP connections between ranks that run beside the collectives.
namespace echelon {

/// A TCP socket that listens on all addresses, on a port chosen by the system; it never blocks.
struct Listener {
  fs::Fd socket;
  int port = 0;
};
/// Throws Error(kEnvironment) "<what>: <call>: <reason>; <remedy>".
[[nodiscard]] Listener listen_anywhere(std::string_view what, std::string_view remedy);

/// Addresses of this machine that other machines may reach, IPv4 first. Excludes loopback, link-local
/// addresses, and bridges of containers and virtual machines.
[[nodiscard]] std::vector<std::string> own_addresses();

/// Connects to the first of `addresses` that answers within `patience_s`. Returns nothing if none does; `why`
/// is then the last reason. The socket never blocks.
[[nodiscard]] std::optional<fs::Fd> connect_to(const std::vector<std::string>& addresses, int port,
                                               double patience_s, std::string& why);

}  // namespace echelon
