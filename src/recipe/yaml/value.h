#pragma once
#include <string>

#include "recipe/check/faults.h"
#include "recipe/keys/keys.h"
#include "recipe/yaml/document.h"

namespace echelon::recipe {

/// Stores `value`, written at `at`, in `recipe`. Or reports everything wrong with it, entries of lists and
/// maps at their own places, and returns false: "optim.lr: 'abc' is not a number; expected a number from 0 to
/// 1". Nothing is converted silently: integers are decimal digits, numbers are finite, true/false are spelled
/// so.
[[nodiscard]] bool assign(const Key& key, const Node& value, const Position& at, Recipe& recipe,
                          Faults& faults);

/// Gives the key in `to` the value it has in `from`.
void copy_value(const Key& key, Recipe& from, Recipe& to);

/// What a key takes, in words: "an integer from 1 to 64".
[[nodiscard]] std::string expected(const Key& key);

}  // namespace echelon::recipe
