#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/faults.h"

namespace echelon::recipe {

/// One value of a YAML text.
struct Node {
  enum class Kind {
    kScalar,
    kNull,    ///< nothing after the colon, or `null` or `~`
    kList,    ///< `items`: its elements
    kMap,     ///< `items`: key, value, key, value ...
    kBroken,  ///< already reported; not to be looked at
  };
  Kind kind = Kind::kNull;
  Position at;
  std::string text;     ///< kScalar: what is written, quotes and escapes resolved
  bool quoted = false;  ///< kScalar: written in quotes
  std::vector<Node> items;
};

/// Parses the subset of YAML that recipes use and reports everything outside it: anchors, aliases, tags,
/// directives, block text, values over several lines, several documents, nesting deeper than 32, more than
/// 10,000 values. Returns what could be read; after a syntax error that is what stands before it. Nothing
/// when there is no value.
[[nodiscard]] std::optional<Node> parse_document(std::string_view text, std::size_t source, Faults& faults);

}  // namespace echelon::recipe
