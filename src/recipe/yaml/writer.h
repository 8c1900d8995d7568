#pragma once
#include <string>

#include "recipe/keys/keys.h"

namespace echelon::recipe {

/// The value of `key` in `recipe` the way YAML writes it. Numbers have the fewest digits that read back the
/// same.
[[nodiscard]] std::string written(const Key& key, const Recipe& recipe);

/// The fewest digits that read back as `value`, always with a '.', so that no YAML reader takes it for text.
[[nodiscard]] std::string shortest(double value);

}  // namespace echelon::recipe
