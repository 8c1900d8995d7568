#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace echelon {

/// The manual page of `command` in man(7)'s macros. `name`: "echelon-recipes-show". `app`: the program that
/// the command belongs to, or the command itself. `date`: "2026-03-01".
[[nodiscard]] std::string manual_page(const CLI::App& app, const CLI::App& command, const std::string& name,
                                      std::string_view date);

/// Adds the command `manual FOLDER`, which writes a page for the program and for each of its commands:
/// FOLDER/man1/NAME.1. The pages bear the date of SOURCE_DATE_EPOCH where it is set, else today's.
void add_manual(CLI::App& app);

}  // namespace echelon
