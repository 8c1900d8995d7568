#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "recipe/check/faults.h"

namespace echelon::recipe {

/// One value of a YAML text.
struct Node {
  enum class Kind {
    kScalar,
    kNull,    ///< nothing after the colon, or `null` or `~`
    kList,    ///< `items`: its elements
    kMap,     ///< `items`: key, value, key, value ...
    kBroken,  ///< a fault was reported; ignore the node
  };
  Kind kind = Kind::kNull;
  Position at;
  std::string text;     ///< kScalar: the value, with quotes and escapes resolved
  bool quoted = false;  ///< kScalar: written in quotes
  std::vector<Node> items;
};

/// The result of parsing a text, complete or not.
struct Document {
  Node root;             ///< kNull if the text has no value
  bool complete = true;  ///< false after a syntax error or an exceeded limit: `root` holds what precedes it

  /// The place where parsing stopped, and the reason; empty if the text is valid YAML. Not in `faults`: the
  /// caller reports it.
  Position syntax_error_at;
  std::string syntax_error;
};

/// Parses the subset of YAML that recipes use. Reports everything outside it to `faults`: anchors, aliases,
/// tags, directives, block text, values over several lines, several documents, lines longer than 16 KiB,
/// nesting deeper than 32, more than 20,000 values. `source`: index for positions. Does not throw for invalid
/// text.
[[nodiscard]] Document parse_document(std::string_view text, std::size_t source, Faults& faults);

}  // namespace echelon::recipe
