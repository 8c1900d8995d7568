#pragma once
#include <string>
#include <vector>

namespace echelon::report {

/// What a report lacks and why, in sentences for people.
using Missing = std::vector<std::string>;

}  // namespace echelon::report
