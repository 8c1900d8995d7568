#pragma once
#include <cstdint>
#include <vector>

namespace echelon {

/// How GPU ranks exchange two-byte gradients to sum them in fp32: among the `local` ranks of a node first, as
/// they are, then the nodes' sums in fp32 between ranks of the same place on each of `nodes` nodes. One node:
/// every rank sends to every other. With many ranks on a node this sends 2 / local of the bytes between nodes
/// that an exchange among all ranks would, and rounds no more often.
struct NodeGrid {
  int nodes = 1;
  int local = 1;

  /// Returns the grid of a group whose rank r is on node node_of[r]. The grid has several nodes only if every
  /// node has the same number of consecutive ranks, at least three. With two ranks, a sum of four bytes an
  /// element is as large as two pieces of two.
  [[nodiscard]] static NodeGrid of(const std::vector<int>& node_of);

  /// Bytes that a rank sends within its node and to other nodes, for pieces of `count` elements. Only for
  /// grids of several nodes.
  [[nodiscard]] std::uint64_t bytes_within(std::uint64_t count) const;
  [[nodiscard]] std::uint64_t bytes_between(std::uint64_t count) const;
  /// Bytes of device memory for the received pieces and the node's sums; none for one rank.
  [[nodiscard]] std::uint64_t scratch_bytes(std::uint64_t count) const;

  friend bool operator==(const NodeGrid&, const NodeGrid&) = default;
};

}  // namespace echelon
