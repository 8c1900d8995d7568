#pragma once
#include <string>

#include "recipe/document.h"
#include "recipe/keys.h"

namespace echelon::recipe {

/// Stores `value` in `recipe`. Returns "" or what is wrong: "'abc' is not a number; expected a number from 0
/// to 1". Nothing is converted silently: integers are decimal digits, numbers are finite, true/false are
/// spelled so.
[[nodiscard]] std::string assign(const Key& key, const Node& value, Recipe& recipe);

/// What a key takes, in words: "an integer from 1 to 64".
[[nodiscard]] std::string expected(const Key& key);

}  // namespace echelon::recipe
