#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echelon {

/// Values by name pattern, in the order written; of several that match, the last counts.
using PatternMap = std::vector<std::pair<std::string, std::string>>;

/// Shell-style match of a dotted name: '*' stands for any characters (dots too), '?' for one, [abc] for one
/// of a set. "model.layers.*" matches "model.layers.3.mlp".
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name);

/// Does any of `patterns` match?
[[nodiscard]] bool matches_any(const std::vector<std::string>& patterns, std::string_view name);

}  // namespace echelon
