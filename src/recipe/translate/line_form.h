#pragma once
#include <string>

#include "recipe/translate/collected.h"
#include "recipe/translate/equivalents.h"

namespace echelon::recipe {

/// Options of `echelon prepare` for the lines of axolotl's `datasets`, each with a blank in front. Empty too
/// where the data sets have different forms or the configuration does not say them, which is remarked.
[[nodiscard]] std::string line_form(Trainer trainer, Collected& recipe);

}  // namespace echelon::recipe
