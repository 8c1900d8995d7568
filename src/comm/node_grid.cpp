#include "comm/node_grid.h"

#include <algorithm>

namespace echelon {
namespace {

constexpr std::uint64_t kElementBytes = 2;  // of an element as it is sent within a node
constexpr std::uint64_t kSumBytes = 4;      // of an element of a node's sum

}  // namespace

NodeGrid NodeGrid::of(const std::vector<int>& node_of) {
  constexpr std::size_t kFewestLocal = 3;
  const NodeGrid flat{1, static_cast<int>(node_of.size())};
  const auto end_of_first = std::ranges::find_if(node_of, [&](int node) { return node != node_of.front(); });
  const auto local = static_cast<std::size_t>(end_of_first - node_of.begin());
  if (local < kFewestLocal || local == node_of.size() || node_of.size() % local != 0) return flat;
  std::vector<int> nodes;
  for (std::size_t first = 0; first < node_of.size(); first += local) {
    for (std::size_t rank = first; rank < first + local; ++rank)
      if (node_of[rank] != node_of[first]) return flat;
    nodes.push_back(node_of[first]);
  }
  std::ranges::sort(nodes);
  if (std::adjacent_find(nodes.begin(), nodes.end()) != nodes.end()) return flat;
  return {static_cast<int>(nodes.size()), static_cast<int>(local)};
}

std::uint64_t NodeGrid::bytes_within(std::uint64_t count) const {
  return static_cast<std::uint64_t>(local - 1) * static_cast<std::uint64_t>(nodes) * count * kElementBytes;
}

std::uint64_t NodeGrid::bytes_between(std::uint64_t count) const {
  return static_cast<std::uint64_t>(nodes - 1) * count * kSumBytes;
}

std::uint64_t NodeGrid::scratch_bytes(std::uint64_t count) const {
  if (local * nodes == 1) return 0;
  const std::uint64_t pieces = static_cast<std::uint64_t>(local) * static_cast<std::uint64_t>(nodes) * count;
  // The sums of other nodes arrive where this node's pieces lay.
  return pieces * kElementBytes + (nodes > 1 ? static_cast<std::uint64_t>(nodes) * count * kSumBytes : 0);
}

}  // namespace echelon
