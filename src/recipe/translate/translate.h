#pragma once
#include <string>
#include <vector>

#include "recipe/translate/equivalents.h"
#include "recipe/translate/settings.h"

namespace echelon::recipe {

/// Another trainer's configuration as a recipe.
struct Translation {
  std::vector<DraftLine> lines;  ///< in the order of the reference; comments name the settings they are from
  std::vector<std::string> remarks;  ///< what was not translated: "line 12: NAME: VALUE; what to do"
};

/// Returns whose configuration this is. Throws Error(kUsage) with `name` if it has no mark of any.
[[nodiscard]] Trainer trainer_of(const std::string& name, const std::vector<Setting>& settings);

/// `ranks`: how many the configuration is for, where its batch is given for each rank.
[[nodiscard]] Translation translate(Trainer trainer, const std::vector<Setting>& settings, int ranks);

}  // namespace echelon::recipe
