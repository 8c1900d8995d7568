#include "app/supervise/nodes.h"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>

#include "base/number.h"
#include "base/str.h"

namespace echelon::supervise {
namespace {

constexpr double kSuspicion_s = 86'400;
constexpr std::int64_t kSharesOfPartition = 4;

}  // namespace

bool contains(const Nodes& nodes, const std::string& name) {
  return std::ranges::find(nodes, name) != nodes.end();
}

std::int64_t nodes_of_next_start(std::int64_t clear, std::int64_t wanted,
                                 const std::vector<std::int64_t>& fewer) {
  if (clear >= wanted) return wanted;
  std::int64_t most = 0;
  for (const std::int64_t count : fewer) {
    if (count <= clear) most = std::max(most, count);
  }
  return most;
}

Nodes choose_nodes(const Nodes& all, const Nodes& before, const std::set<std::string>& clear,
                   std::int64_t wanted, const std::vector<std::int64_t>& fewer) {
  const auto count =
      static_cast<std::size_t>(nodes_of_next_start(static_cast<std::int64_t>(clear.size()), wanted, fewer));
  std::set<std::string> chosen;
  for (const Nodes* some : {&before, &all}) {
    for (const std::string& name : *some) {
      if (chosen.size() < count && clear.contains(name)) chosen.insert(name);
    }
  }
  Nodes in_order;
  if (chosen.size() < count) return in_order;
  std::ranges::copy_if(all, std::back_inserter(in_order),
                       [&](const std::string& name) { return chosen.contains(name); });
  return in_order;
}

bool is_usable(std::string_view state, bool draining) {
  constexpr std::array<std::string_view, 6> kUsable{"idle", "mix", "alloc", "comp", "plan", "res"};
  if (state.ends_with('*')) return false;
  if (draining && state.starts_with("drain")) return true;
  return std::ranges::any_of(kUsable, [state](std::string_view start) { return state.starts_with(start); });
}

std::vector<Suspect> parse_suspects(std::string_view text) {
  std::vector<Suspect> suspects;
  for (const std::string& line : split(text, '\n')) {
    std::istringstream words(line);
    std::string time;
    Suspect suspect;
    if (words >> time >> suspect.host && read_number(time, suspect.time_s).empty())
      suspects.push_back(suspect);
  }
  return suspects;
}

std::string node_of_host(const std::string& host, const Nodes& known) {
  return contains(known, host) ? host : host.substr(0, host.find('.'));
}

Nodes left_out(const std::vector<NodeState>& partition, const Nodes& already,
               const std::vector<Suspect>& suspects, double now_s, std::int64_t needed) {
  std::map<std::string, std::string> name_of;  // of a node's name and its host name
  std::map<std::string, bool> usable;
  for (const NodeState& node : partition) {
    name_of[node.name] = name_of[node.host] = node.name;
    usable[node.name] = is_usable(node.state, false);
  }
  std::map<std::string, double> since;
  Nodes newest_first;
  for (auto suspect = suspects.rbegin(); suspect != suspects.rend(); ++suspect) {
    auto found = name_of.find(suspect->host);
    if (found == name_of.end()) found = name_of.find(suspect->host.substr(0, suspect->host.find('.')));
    if (found != name_of.end() && since.emplace(found->second, suspect->time_s).second)
      newest_first.push_back(found->second);
  }
  auto most = static_cast<std::int64_t>(usable.size()) / kSharesOfPartition;
  std::int64_t left = std::ranges::count_if(usable, [](const auto& node) { return node.second; });
  Nodes out;
  for (const std::string& name : already) {
    left -= usable[name] ? 1 : 0;
    out.push_back(name);
  }
  for (const std::string& name : newest_first) {
    const std::int64_t of_it = usable[name] ? 1 : 0;
    if (contains(already, name) || since[name] < now_s - kSuspicion_s || most == 0 || left - of_it < needed)
      continue;
    --most;
    left -= of_it;
    out.push_back(name);
  }
  return out;
}

}  // namespace echelon::supervise
