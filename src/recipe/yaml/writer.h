#pragma once
#include <string>
#include <vector>

#include "recipe/keys/keys.h"

namespace echelon::recipe {

/// The value of `key` in `recipe` the way YAML writes it. Numbers have the fewest digits that read back the
/// same.
[[nodiscard]] std::string written(const Key& key, const Recipe& recipe);

/// The entries of a list or map, each as YAML writes it; of another field none.
[[nodiscard]] std::vector<std::string> entries(const Slot& slot);

/// The fewest digits that read back as `value`, always with a '.', so that no YAML reader takes it for text.
[[nodiscard]] std::string shortest(double value);

/// "constant 500", or of a phase to the end of the run "constant".
[[nodiscard]] std::string phase_text(const SchedulePhase& phase);

}  // namespace echelon::recipe
