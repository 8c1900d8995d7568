#include "report/record/nodes.h"

#include <algorithm>

#include "base/foreign_json.h"
#include "report/record/files.h"

namespace echelon::report {

NodeSigns node_signs(std::string_view json) {
  constexpr std::size_t kMostNodes = 10'000;
  constexpr double kMost = 1e12;
  NodeSigns signs;
  if (json.empty()) return signs;
  const nlohmann::json read = read_foreign_json(json).value;
  signs.time_s = number_in(read, "time").value_or(0);
  const nlohmann::json& nodes = member_of(read, "nodes");
  for (std::size_t i = 0; nodes.is_array() && i < nodes.size() && i < kMostNodes; ++i) {
    const auto number = [&](const char* name) {
      return std::clamp(number_in(nodes[i], name).value_or(0), 0.0, kMost);
    };
    signs.nodes.push_back({.host = text_in(nodes[i], "host"),
                           .ranks = static_cast<std::int64_t>(number("ranks")),
                           .silent_s = number("silent_s"),
                           .step = static_cast<std::int64_t>(number("step")),
                           .state = text_in(nodes[i], "state")});
  }
  return signs;
}

}  // namespace echelon::report
