#pragma once
#include <CLI/CLI.hpp>

/// Each function adds one subcommand to `echelon doctor`; see app/commands.h.
namespace echelon::app::doctor {

void add_recipe(CLI::App& doctor);
void add_cluster(CLI::App& doctor);
void add_job(CLI::App& doctor, int& status);
void add_install(CLI::App& doctor);

/// The options that all of these subcommands have.
struct CommonArguments {
  bool json = false;
  std::string root = "/";
};
void add_common(CLI::App& command, CommonArguments& arguments);

}  // namespace echelon::app::doctor
