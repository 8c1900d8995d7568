#pragma once
#include <set>
#include <string>

#include "app/supervise/nodes.h"

namespace echelon::supervise {

/// What is asked of nodes that lost ranks.
struct ClearRequest {
  Nodes asked;
  Nodes before;             ///< that the lost start ran on
  std::int64_t wanted = 0;  ///< by the next start
  bool all = false;         ///< wait for nodes that are not needed now, too
  std::string started_at;   ///< ECHELON_STARTED_AT of the lost start, by which its ranks are found
};

struct ClearNodes {
  std::set<std::string> clear;
  Nodes unsure;  ///< that were not waited for
};

/// Ends what is left of a lost start on the nodes, and returns those on which nothing is left, which also
/// shows that they work. Nodes have 8 s to answer; a minute if none does, because then Slurm's controller is
/// slow; 4 s more once there are enough.
[[nodiscard]] ClearNodes clear_nodes(const ClearRequest& request);

}  // namespace echelon::supervise
