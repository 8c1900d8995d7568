#pragma once
#include <CLI/CLI.hpp>

/// Each function adds one subcommand to `echelon`. Its callback does the work and throws Error, or sets
/// `status` to the exit code. One command = one file of this folder.
namespace echelon::app {

void add_train(CLI::App& app, int& status);
void add_sample(CLI::App& app, int& status);
void add_validate(CLI::App& app, int& status);
void add_plan(CLI::App& app, int& status);
void add_submit(CLI::App& app, int& status);
void add_recipes(CLI::App& app, int& status);
void add_prepare(CLI::App& app, int& status);
void add_doctor(CLI::App& app, int& status);

}  // namespace echelon::app
