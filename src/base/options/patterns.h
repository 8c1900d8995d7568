#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echelon {

/// Values by name pattern, in the order written; of several that match, the last counts.
template <class Value>
using PatternMap = std::vector<std::pair<std::string, Value>>;

/// Shell-style match of a dotted name: '*' stands for any characters (dots too), '?' for one, [abc] for one
/// of a set. "model.layers.*" matches "model.layers.3.mlp".
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name);

/// Value of the last pattern that matches; null when none does.
template <class Value>
[[nodiscard]] const Value* last_match(const PatternMap<Value>& map, std::string_view name) {
  const Value* found = nullptr;
  for (const auto& entry : map) {
    if (matches(entry.first, name)) found = &entry.second;
  }
  return found;
}

/// Does any of `patterns` match?
[[nodiscard]] bool matches_any(const std::vector<std::string>& patterns, std::string_view name);

}  // namespace echelon
