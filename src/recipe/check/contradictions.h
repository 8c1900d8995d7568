#pragma once
#include <string_view>
#include <vector>

#include "recipe/check/check.h"

namespace echelon::recipe {

/// Whether `key` means something beside what `recipe` says of the keys that choose: `model.kv_heads` does for
/// a Llama only.
[[nodiscard]] bool is_used(std::string_view key, const Recipe& recipe);

/// Adds what the options of sharding, precision, optimizer, schedule and training say against each other: a
/// key set (to another value than its default) that another key makes meaningless, types that an optimizer
/// cannot train, phases that do not fit into the run.
void find_contradictions(const Recipe& recipe, std::vector<Conflict>& found);

}  // namespace echelon::recipe
