#pragma once
#include <CLI/CLI.hpp>

/// Each function adds one subcommand to `echelon doctor`, as those of app/commands.h do to `echelon`.
namespace echelon::app::doctor {

void add_recipe(CLI::App& doctor);
void add_cluster(CLI::App& doctor);
void add_job(CLI::App& doctor, int& status);

/// What every one of them takes.
struct CommonArguments {
  bool as_json = false;
  std::string root = "/";
};
void add_common(CLI::App& command, CommonArguments& arguments);

}  // namespace echelon::app::doctor
