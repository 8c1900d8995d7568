#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace echelon::report {

/// The last state of a node that rank 0 received: an entry of logs/nodes.json.
struct NodeSign {
  std::string host;
  std::int64_t ranks = 0;
  double silent_s = 0;    ///< since the last heartbeat of that of its ranks that is silent longest
  std::int64_t step = 0;  ///< of its rank that is furthest behind
  std::string state;      ///< "alive", "silent", "ended", "left"
};

struct NodeSigns {
  double time_s = 0;  ///< when it was written, since 1970
  std::vector<NodeSign> nodes;
};

/// Empty for a text that is no such file.
[[nodiscard]] NodeSigns node_signs(std::string_view json);

}  // namespace echelon::report
