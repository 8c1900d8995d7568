#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

/// Which nodes of a job and of a partition to use. Pure.
namespace echelon::supervise {

using Nodes = std::vector<std::string>;

[[nodiscard]] bool contains(const Nodes& nodes, const std::string& name);

/// The nodes for the next start in the order of `all`: those of `before`, then others, all of them in
/// `clear`. As many as `wanted`, or the largest number of `fewer` that is there; empty: there are too few.
[[nodiscard]] Nodes choose_nodes(const Nodes& all, const Nodes& before, const std::set<std::string>& clear,
                                 std::int64_t wanted, const std::vector<std::int64_t>& fewer);

/// How many nodes the next start would have of `clear` ones; 0: there are too few.
[[nodiscard]] std::int64_t nodes_of_next_start(std::int64_t clear, std::int64_t wanted,
                                               const std::vector<std::int64_t>& fewer);

/// A node as sinfo prints it: its name, its host name, its state ("idle", "mix*", "drained").
struct NodeState {
  std::string name;
  std::string host;
  std::string state;
};

/// Do ranks run in this state of a node, or could they? A state that ends in * is of a node that does not
/// answer. Those that drain keep their present job; `draining` says whether they count.
[[nodiscard]] bool is_usable(std::string_view state, bool draining);

/// A line of suspects.txt.
struct Suspect {
  double time_s = 0;  ///< seconds since 1970
  std::string host;
};
/// In order; lines that are not of this form are left out.
[[nodiscard]] std::vector<Suspect> parse_suspects(std::string_view text);

/// The nodes that the job leaves out from now on: those that its user leaves out (`already`), then suspects,
/// newest first. A suspicion ends after a day. It takes at most a quarter of the partition,
/// and no node that a job of `needed` nodes cannot do without.
[[nodiscard]] Nodes left_out(const std::vector<NodeState>& partition, const Nodes& already,
                             const std::vector<Suspect>& suspects, double now_s, std::int64_t needed);

/// "n2" of "n2.cluster.local", unless `known` has the whole name.
[[nodiscard]] std::string node_of_host(const std::string& host, const Nodes& known);

}  // namespace echelon::supervise
