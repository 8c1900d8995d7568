#pragma once
#include <string>

#include "recipe/keys/keys.h"

namespace echelon::recipe {

/// The value of `key` in `recipe` as YAML. Numbers have the fewest digits that read back to the same value.
[[nodiscard]] std::string written(const Key& key, const Recipe& recipe);

/// `text` in double quotes, control characters escaped.
[[nodiscard]] std::string quoted(const std::string& text);

/// The fewest digits that read back as `value`. Always contains a '.', so that every YAML reader takes it for
/// a number.
[[nodiscard]] std::string shortest(double value);

}  // namespace echelon::recipe
