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

/// Connects to `address`. Returns nothing if it does not answer within `patience_s`; `why` is then the
/// reason. The socket never blocks.
[[nodiscard]] std::optional<fs::Fd> connect_to(const std::string& address, int port, double patience_s,
                                               std::string& why);

}  // namespace echelon
