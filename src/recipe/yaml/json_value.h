#pragma once
#include <nlohmann/json.hpp>

#include "recipe/keys/keys.h"

namespace echelon::recipe {

/// The value of `key` in `recipe` as JSON: a map of patterns is an object in the order written, a switch
/// true or false.
[[nodiscard]] nlohmann::ordered_json json_value(const Key& key, const Recipe& recipe);

}  // namespace echelon::recipe
