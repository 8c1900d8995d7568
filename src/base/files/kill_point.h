#pragma once
#include <string_view>

namespace echelon {

/// A named place where a crash is worth testing. Does nothing, unless the environment variable
/// ECHELON_KILL_POINT is "<name>[:<rank>[:<n>]]": then the process (of that PMIX_RANK) kills itself with
/// SIGKILL, as if the node were lost, when it reaches that place for the first or n-th time. Thread-safe.
void kill_point(std::string_view name);

}  // namespace echelon
