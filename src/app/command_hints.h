#pragma once
#include <string>
#include <vector>

namespace echelon::app {

/// What a command line that was refused means, as far as its words tell; else "". `words`: behind the
/// program's name.
[[nodiscard]] std::string hint_for(const std::vector<std::string>& words);

}  // namespace echelon::app
