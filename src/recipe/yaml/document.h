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
    kBroken,  ///< already reported; not to be looked at
  };
  Kind kind = Kind::kNull;
  Position at;
  std::string text;     ///< kScalar: what is written, quotes and escapes resolved
  bool quoted = false;  ///< kScalar: written in quotes
  std::vector<Node> items;
};

/// What could be read of a text.
struct Document {
  Node root;             ///< kNull when there is no value
  bool complete = true;  ///< false after a syntax error or a limit: `root` is what stands before it

  /// Where reading ended and why; empty when the text is YAML. Left to the caller to report.
  Position syntax_error_at;
  std::string syntax_error;
};

/// Parses the subset of YAML that recipes use and reports everything outside it: anchors, aliases, tags,
/// directives, block text, values over several lines, several documents, nesting deeper than 32, more than
/// 20,000 values.
[[nodiscard]] Document parse_document(std::string_view text, std::size_t source, Faults& faults);

}  // namespace echelon::recipe
