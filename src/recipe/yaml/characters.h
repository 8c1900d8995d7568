#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "recipe/check/faults.h"

namespace echelon::recipe {

/// One character of a text that should be UTF-8.
struct Character {
  std::size_t bytes = 1;  ///< how far to the next one
  std::string problem;    ///< why no recipe may hold it ("is a tab"), or empty
};

/// The character that starts at byte `at` (< text.size()). Line breaks and tabs count as problems.
[[nodiscard]] Character character_at(std::string_view text, std::size_t at);

/// The problem of the first character of `text` that no value may hold, or "".
[[nodiscard]] std::string first_character_problem(std::string_view text);

/// Reports every character that a recipe file may not hold: broken UTF-8, control characters, tabs, a byte
/// order mark, invisible or direction-changing characters. Returns the text with each of them replaced by one
/// harmless character (a leading byte order mark removed), so that the rest can still be checked with
/// positions intact.
[[nodiscard]] std::string check_characters(std::string_view text, std::size_t source, Faults& faults);

/// Line and column of byte `offset` of `text`.
[[nodiscard]] Position position_at(std::string_view text, std::size_t source, std::size_t offset);

}  // namespace echelon::recipe
