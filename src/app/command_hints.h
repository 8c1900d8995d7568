#pragma once
#include <string>
#include <vector>

namespace echelon::app {

/// Returns the likely meaning of a command line that was refused, or "". `words`: behind the program's name.
[[nodiscard]] std::string hint_for(const std::vector<std::string>& words);

}  // namespace echelon::app
