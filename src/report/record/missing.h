#pragma once
#include <string>
#include <vector>

namespace echelon::report {

/// The gaps of a report and their reasons, in sentences for people.
using Missing = std::vector<std::string>;

}  // namespace echelon::report
