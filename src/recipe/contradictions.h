#pragma once
#include <vector>

#include "recipe/check.h"

namespace echelon::recipe {

/// Adds what the options of sharding, precision, optimizer, schedule and training say against each other: a
/// key set (to another value than its default) that another key makes meaningless, types that an optimizer
/// cannot train, phases that do not fit into the run.
void find_contradictions(const Recipe& recipe, std::vector<Conflict>& found);

}  // namespace echelon::recipe
