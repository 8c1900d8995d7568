#pragma once
#include <string>

#include "recipe/check/faults.h"
#include "recipe/keys/keys.h"
#include "recipe/yaml/document.h"

namespace echelon::recipe {

/// Stores `value`, found at `at`, in the field of `key`. If it is invalid, reports every fault and returns
/// false: "optim.lr: 'abc' is not a number; expected a number from 0 to 1". Faults of list and map entries
/// are reported at the entry. Nothing is converted silently: integers are decimal digits, numbers are finite,
/// switches are spelled true or false.
[[nodiscard]] bool assign(const Key& key, const Node& value, const Position& at, Recipe& recipe,
                          Faults& faults);

/// Copies the value of `key` from `from` to `to`. Does not change `from`.
void copy_value(const Key& key, Recipe& from, Recipe& to);

/// The allowed values of a key in words: "an integer from 1 to 64".
[[nodiscard]] std::string expected(const Key& key);

}  // namespace echelon::recipe
