#pragma once
#include <CLI/CLI.hpp>

/// Each function adds one subcommand to `echelon`. The subcommand's callback does the work: it throws Error
/// or sets `status` to the exit code. `app` and `status` must outlive parsing. Each command has its own file
/// in this folder.
namespace echelon::app {

void add_train(CLI::App& app, int& status);
void add_sample(CLI::App& app, int& status);
void add_evaluate(CLI::App& app, int& status);
void add_report(CLI::App& app, int& status);
void add_watch(CLI::App& app, int& status);
void add_runs(CLI::App& app, int& status);
void add_init(CLI::App& app, int& status);
void add_validate(CLI::App& app, int& status);
void add_plan(CLI::App& app, int& status);
void add_prove(CLI::App& app, int& status);
void add_submit(CLI::App& app, int& status);
void add_supervise(CLI::App& app, int& status);
void add_recipes(CLI::App& app, int& status);
void add_metrics(CLI::App& app, int& status);
void add_prepare(CLI::App& app, int& status);
void add_doctor(CLI::App& app, int& status);

}  // namespace echelon::app
