#pragma once
#include <nlohmann/json.hpp>

#include "recipe/keys/keys.h"

namespace echelon::recipe {

/// The value of `key` in `recipe` as JSON: a pattern map is an object in the order written, a SwitchOrCount
/// is a boolean or an integer.
[[nodiscard]] nlohmann::ordered_json json_value(const Key& key, const Recipe& recipe);

}  // namespace echelon::recipe
