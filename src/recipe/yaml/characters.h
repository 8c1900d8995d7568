#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "recipe/check/faults.h"

namespace echelon::recipe {

/// One character of a text expected to be UTF-8.
struct Character {
  std::size_t bytes = 1;  ///< distance to the next character
  std::string problem;    ///< why a recipe may not contain it ("is a tab"), or empty
};

/// The character that starts at byte `at` (< text.size()). Line breaks and tabs count as problems.
[[nodiscard]] Character character_at(std::string_view text, std::size_t at);

/// The problem of the first character in `text` that a value may not contain, or "".
[[nodiscard]] std::string first_character_problem(std::string_view text);

/// Reports characters that a recipe file may not contain: invalid UTF-8, control characters, tabs, a byte
/// order mark, invisible or direction-changing characters; at most one fault per line. Returns the text with
/// each of them replaced by one harmless character, so that the rest can be checked at its original
/// positions. A leading byte order mark is removed.
[[nodiscard]] std::string check_characters(std::string_view text, std::size_t source, Faults& faults);

}  // namespace echelon::recipe
