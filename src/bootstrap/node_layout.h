#pragma once
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/job.h"

namespace echelon {

/// Fills every field of JobInfo but `launcher` from the host name of each rank: ranks of equal name share a
/// node, nodes count in order of their first rank.
[[nodiscard]] JobInfo place_rank(int rank, const std::vector<std::string>& hosts);

/// Ranks of a node, from the host name of each rank; nothing if nodes have different numbers of them.
[[nodiscard]] std::optional<int> ranks_of_each_node(const std::vector<std::string>& hosts);

}  // namespace echelon
