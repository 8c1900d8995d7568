#pragma once
#include <string_view>
#include <vector>

#include "recipe/check/check.h"

namespace echelon::recipe {

/// Returns whether `recipe` uses `key`, given the values of the keys that select features: `model.kv_heads`
/// is used by Llama models only.
[[nodiscard]] bool is_used(std::string_view key, const Recipe& recipe);

/// Adds contradictions among the options of sharding, precision, optimizer, schedule and training: a key set
/// to a non-default value that another key makes meaningless, types that an optimizer cannot train, phases
/// that do not fit into the run.
void find_contradictions(const Recipe& recipe, std::vector<Conflict>& found);

}  // namespace echelon::recipe
