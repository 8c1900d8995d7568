#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace echelon::app {

/// Returns the command line of one rank: `command` as it was given, without --ranks.
[[nodiscard]] std::vector<std::string> command_of_one_rank(const CLI::App& command);

}  // namespace echelon::app
