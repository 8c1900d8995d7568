#include "app/engine/device_choice.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/str.h"

namespace echelon::app {
namespace {

/// The ranks of a node, and the GPUs that they see together.
struct Node {
  int ranks = 0;
  std::set<std::string> ids;
};

std::map<std::string, Node> nodes_of(const std::vector<VisibleDevices>& ranks) {
  std::map<std::string, Node> nodes;
  for (const VisibleDevices& rank : ranks) {
    Node& node = nodes[rank.host];
    ++node.ranks;
    node.ids.insert(rank.ids.begin(), rank.ids.end());
  }
  return nodes;
}

std::string scarcity(const std::string& host, const Node& node) {
  return str("node ", host, " shows ", node.ids.size(), " GPU(s) for its ", counted(node.ranks, "rank"));
}

}  // namespace

DeviceChoice assign_devices(const std::vector<VisibleDevices>& ranks, bool share) {
  DeviceChoice choice;
  const std::map<std::string, Node> nodes = nodes_of(ranks);
  std::map<std::string, std::set<std::string>> taken;  // ids in use, by host
  std::map<std::string, std::size_t> turns;            // by host: number of ranks that share so far
  for (const VisibleDevices& rank : ranks) {
    std::set<std::string>& here = taken[rank.host];
    const Node& node = nodes.at(rank.host);
    if (choice.hiding.empty() && !rank.ids.empty() && rank.ids.size() < node.ids.size())
      choice.hiding = rank.host;
    const auto own = std::find_if(rank.ids.begin(), rank.ids.end(),
                                  [&](const std::string& id) { return here.count(id) == 0; });
    if (own != rank.ids.end()) {
      here.insert(*own);
      choice.devices.push_back(static_cast<int>(own - rank.ids.begin()));
      continue;
    }
    if (choice.lacking.empty() || (rank.broken && !choice.broken))
      choice.lacking =
          rank.ids.empty() ? str("on node ", rank.host, ": ", rank.why_none) : scarcity(rank.host, node);
    choice.broken = choice.broken || rank.broken;
    const bool turn = share && !rank.ids.empty();
    choice.devices.push_back(turn ? static_cast<int>(turns[rank.host]++ % rank.ids.size()) : -1);
    // One sharing rank makes the job shared: all ranks must use the same kind of communicator.
    choice.shared = choice.shared || turn;
  }
  return choice;
}

}  // namespace echelon::app
