#include "base/net/node_layout.h"

#include <algorithm>
#include <map>

namespace echelon {

NodeLayout::NodeLayout(const std::vector<std::string>& hosts) {
  std::map<std::string, std::size_t> numbers;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto [known, is_new] = numbers.emplace(hosts[rank], numbers.size());
    if (is_new) {
      hosts_.push_back(hosts[rank]);
      ranks_of_.emplace_back();
    }
    node_of_.push_back(static_cast<int>(known->second));
    ranks_of_[known->second].push_back(static_cast<int>(rank));
  }
}

std::optional<int> NodeLayout::ranks_of_each() const {
  const std::size_t first = ranks_of_.at(0).size();
  const auto has_as_many = [&](const std::vector<int>& ranks) { return ranks.size() == first; };
  return std::ranges::all_of(ranks_of_, has_as_many) ? std::optional(static_cast<int>(first)) : std::nullopt;
}

std::size_t NodeLayout::place_of(int rank) const {
  const std::vector<int>& ranks = ranks_beside(rank);
  return static_cast<std::size_t>(std::ranges::find(ranks, rank) - ranks.begin());
}

std::vector<int> NodeLayout::copied_by(int rank) const {
  std::vector<int> copied;
  if (nodes() == 1) return copied;
  const std::vector<int>& before = ranks_of((node_of(rank) + nodes() - 1) % nodes());
  for (std::size_t i = place_of(rank); i < before.size(); i += ranks_beside(rank).size())
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

}  // namespace echelon
