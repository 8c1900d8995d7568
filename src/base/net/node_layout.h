#pragma once
#include <optional>
#include <string>
#include <vector>

namespace echelon {

/// Which node each rank runs on. Ranks of equal host name share a node, and nodes are numbered in the order
/// of their first rank. Where nodes keep copies of what others hold, a node's partner is the next one, the
/// last one's is the first: another machine, and on most clusters another failure domain than its own.
class NodeLayout {
 public:
  /// `hosts`: of every rank, by rank.
  explicit NodeLayout(const std::vector<std::string>& hosts);

  [[nodiscard]] int ranks() const { return static_cast<int>(node_of_.size()); }
  [[nodiscard]] int nodes() const { return static_cast<int>(hosts_.size()); }
  [[nodiscard]] int node_of(int rank) const { return node_of_.at(static_cast<std::size_t>(rank)); }
  [[nodiscard]] const std::string& host_of(int node) const {
    return hosts_.at(static_cast<std::size_t>(node));
  }
  [[nodiscard]] const std::vector<int>& ranks_of(int node) const {
    return ranks_of_.at(static_cast<std::size_t>(node));
  }
  /// The ranks of a node; nothing if nodes have different numbers of them.
  [[nodiscard]] std::optional<int> ranks_of_each() const;
  /// The ranks of the node of `rank`, itself included.
  [[nodiscard]] const std::vector<int>& ranks_beside(int rank) const { return ranks_of(node_of(rank)); }
  /// The first rank of a node, which does what is done once per node.
  [[nodiscard]] bool leads(int rank) const { return ranks_beside(rank).front() == rank; }
  /// Position of a rank among those of its node.
  [[nodiscard]] std::size_t place_of(int rank) const;

  /// The ranks whose part `rank` copies to its own node: its share of those of the node before. Empty with
  /// one node.
  [[nodiscard]] std::vector<int> copied_by(int rank) const;
  /// The ranks whose part a node holds, own and copied, by rank.
  [[nodiscard]] std::vector<int> held_by(int node) const;

 private:
  std::vector<int> node_of_;
  std::vector<std::string> hosts_;
  std::vector<std::vector<int>> ranks_of_;
};

}  // namespace echelon
