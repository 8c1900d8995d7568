#pragma once
#include <string>
#include <vector>

#include "recipe/keys/keys.h"

namespace echelon::recipe {

/// The value of `key` in `recipe` as YAML. Numbers have the fewest digits that read back to the same value.
[[nodiscard]] std::string written(const Key& key, const Recipe& recipe);

/// The entries of a list or map, each as YAML; empty for other fields.
[[nodiscard]] std::vector<std::string> entries(const Slot& slot);

/// `text` in double quotes, control characters escaped.
[[nodiscard]] std::string quoted(const std::string& text);

/// The fewest digits that read back as `value`. Always contains a '.', so that every YAML reader takes it for
/// a number.
[[nodiscard]] std::string shortest(double value);

/// "constant 500"; "constant" for a phase without a number of steps.
[[nodiscard]] std::string phase_text(const SchedulePhase& phase);

}  // namespace echelon::recipe
