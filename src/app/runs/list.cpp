#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "app/commands.h"
#include "base/foreign_text.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "base/utc_time.h"
#include "report/watch/run_table.h"

namespace echelon::app {
namespace {

struct RunsArguments {
  std::string folder = "runs";
  bool json = false;
};

void print_runs(const RunsArguments& arguments) {
  const double now_s = utc_now_s();
  const std::vector<report::RunRow> runs = report::find_runs(arguments.folder, now_s);
  if (arguments.json) {
    std::cout << json_text(report::json_of(runs)) << '\n';
  } else if (runs.empty()) {
    std::cout << "no run at or below '" << printable(arguments.folder) << "'\n";
  } else {
    for (const std::string& line : report::table(runs, now_s)) std::cout << line << '\n';
  }
}

}  // namespace

void add_runs(CLI::App& app, int&) {
  const auto [command, arguments] = add_command<RunsArguments>(
      app, "runs", "List the runs below a folder: state, step, loss, speed, newest save", print_runs);
  command.add_option("folder", arguments.folder, "Folder to search, 4 levels deep")->capture_default_str();
  add_json(command, arguments.json);
}

}  // namespace echelon::app
