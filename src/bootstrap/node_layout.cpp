#include "bootstrap/node_layout.h"

#include <map>

namespace echelon {

JobInfo place_rank(int rank, const std::vector<std::string>& hosts) {
  JobInfo info;
  info.rank = rank;
  info.size = static_cast<int>(hosts.size());
  info.hosts = hosts;
  info.host = hosts.at(static_cast<std::size_t>(rank));
  info.local_size = 0;
  std::map<std::string, int> node_of;
  for (int other = 0; other < info.size; ++other) {
    const std::string& host = hosts[static_cast<std::size_t>(other)];
    node_of.emplace(host, static_cast<int>(node_of.size()));
    if (host != info.host) continue;
    if (other < rank) ++info.local_rank;
    ++info.local_size;
  }
  info.node = node_of.at(info.host);
  info.num_nodes = static_cast<int>(node_of.size());
  return info;
}

std::optional<int> ranks_of_each_node(const std::vector<std::string>& hosts) {
  std::map<std::string, int> ranks;
  for (const std::string& host : hosts) ++ranks[host];
  const int first = ranks.at(hosts.at(0));
  for (const auto& [host, count] : ranks) {
    if (count != first) return std::nullopt;
  }
  return first;
}

}  // namespace echelon
