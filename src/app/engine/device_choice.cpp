#include "app/engine/device_choice.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/str.h"

namespace echelon::app {
namespace {

/// The text for too few GPUs: how many the ranks of `host` see together, and the number of those ranks.
std::string scarcity(const std::vector<VisibleDevices>& ranks, const std::string& host) {
  std::set<std::string> ids;
  int count = 0;
  for (const VisibleDevices& rank : ranks) {
    if (rank.host != host) continue;
    ids.insert(rank.ids.begin(), rank.ids.end());
    ++count;
  }
  return str("node ", host, " shows ", ids.size(), " GPU(s) for its ", count,
             count == 1 ? " rank" : " ranks");
}

}  // namespace

DeviceChoice assign_devices(const std::vector<VisibleDevices>& ranks, bool share) {
  DeviceChoice choice;
  std::map<std::string, std::set<std::string>> taken;  // ids in use, by host
  std::map<std::string, std::size_t> turns;            // by host: number of ranks that share so far
  for (const VisibleDevices& rank : ranks) {
    std::set<std::string>& here = taken[rank.host];
    const auto own = std::find_if(rank.ids.begin(), rank.ids.end(),
                                  [&](const std::string& id) { return here.count(id) == 0; });
    if (own != rank.ids.end()) {
      here.insert(*own);
      choice.devices.push_back(static_cast<int>(own - rank.ids.begin()));
      continue;
    }
    if (choice.lacking.empty() || (rank.broken && !choice.broken))
      choice.lacking =
          rank.ids.empty() ? str("on node ", rank.host, ": ", rank.why_none) : scarcity(ranks, rank.host);
    choice.broken = choice.broken || rank.broken;
    const bool turn = share && !rank.ids.empty();
    choice.devices.push_back(turn ? static_cast<int>(turns[rank.host]++ % rank.ids.size()) : -1);
    // One sharing rank makes the job shared: all ranks must use the same kind of communicator.
    choice.shared = choice.shared || turn;
  }
  return choice;
}

}  // namespace echelon::app
