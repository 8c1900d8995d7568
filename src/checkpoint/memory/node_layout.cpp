#include "checkpoint/memory/node_layout.h"

#include <algorithm>

namespace echelon::checkpoint {

NodeLayout::NodeLayout(const std::vector<std::string>& hosts) {
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto known = std::ranges::find(hosts_, hosts[rank]);
    const auto node = static_cast<std::size_t>(known - hosts_.begin());
    if (known == hosts_.end()) {
      hosts_.push_back(hosts[rank]);
      ranks_of_.emplace_back();
    }
    node_of_.push_back(static_cast<int>(node));
    ranks_of_[node].push_back(static_cast<int>(rank));
  }
}

std::size_t NodeLayout::place_of(int rank) const {
  const std::vector<int>& ranks = ranks_of(node_of(rank));
  return static_cast<std::size_t>(std::ranges::find(ranks, rank) - ranks.begin());
}

std::vector<int> NodeLayout::copied_by(int rank) const {
  std::vector<int> copied;
  if (nodes() == 1) return copied;
  const int mine = node_of(rank);
  const std::vector<int>& before = ranks_of((mine + nodes() - 1) % nodes());
  for (std::size_t i = place_of(rank); i < before.size(); i += ranks_of(mine).size())
    copied.push_back(before[i]);
  return copied;
}

std::vector<int> NodeLayout::held_by(int node) const {
  std::vector<int> held = ranks_of(node);
  for (const int rank : ranks_of(node)) {
    for (const int other : copied_by(rank)) held.push_back(other);
  }
  std::ranges::sort(held);
  return held;
}

}  // namespace echelon::checkpoint
