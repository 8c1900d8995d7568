#pragma once
#include <string>

#include "recipe/translate/collected.h"

namespace echelon::recipe {

/// Options of `echelon prepare` for the lines of axolotl's `datasets`, each with a blank in front. Empty too
/// where the data sets have different forms, which is remarked.
[[nodiscard]] std::string line_form(Collected& recipe);

}  // namespace echelon::recipe
