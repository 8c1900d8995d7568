#include <CLI/CLI.hpp>
#include <csignal>
#include <optional>
#include <string_view>

#include "app/argument_values.h"
#include "app/command_hints.h"
#include "app/commands.h"
#include "app/engine/engine.h"
#include "app/launcher/output_relay.h"
#include "app/plugin.h"
#include "app/report_error.h"
#include "base/caught.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "base/terminal/completion.h"
#include "base/terminal/machine_output.h"
#include "base/terminal/manual_page.h"
#include "base/terminal/standard_output.h"

namespace {

using echelon::Code;
using echelon::str;

/// The versions in use, one per line. Those of the engine come from the engine; without one, the text says
/// so.
std::string versions() {
  std::string text = str("echelon ", ECHELON_VERSION, "\n", echelon::pmix_version(), "\n");
  try {
    text += echelon::app::engine_function<echelon::app::VersionFunction>("echelon_engine_versions")();
  } catch (const echelon::Error& error) {
    text += str("no training engine (", error.what(), ")");
  }
  return text;
}

int run(int argc, char** argv) {
  CLI::App app{
      "Trains models, fully sharded, on Slurm clusters and single machines from one YAML recipe.\n"
      "Exit codes: 0 done, 2 usage or recipe, 3 environment, 4 data, 5 checkpoint, 6 training failed,\n"
      "7 a peer died or hung, 85 stopped early on purpose: requeue me."};
  app.name("echelon");
  app.require_subcommand(1);
  app.set_version_flag("--version", versions);
  int status = 0;
  echelon::app::add_train(app, status);
  echelon::app::add_validate(app, status);
  echelon::app::add_plan(app, status);
  echelon::app::add_prove(app, status);
  echelon::app::add_submit(app, status);
  echelon::app::add_supervise(app, status);
  echelon::app::add_recipes(app, status);
  echelon::app::add_init(app, status);
  echelon::app::add_prepare(app, status);
  echelon::app::add_sample(app, status);
  echelon::app::add_evaluate(app, status);
  echelon::app::add_report(app, status);
  echelon::app::add_watch(app, status);
  echelon::app::add_runs(app, status);
  echelon::app::add_metrics(app, status);
  echelon::app::add_doctor(app, status);
  echelon::add_completion(app);
  echelon::add_manual(app);
  echelon::read_numbers_strictly(app);
  const std::vector<std::string> words{argv + 1, argv + argc};
  if (!words.empty() && words[0] == "complete")
    return echelon::print_completion(app, words, echelon::app::argument_values);
  const std::string hint = echelon::app::hint_for(words);
  if (hint.starts_with("'echelon-ckpt "))
    throw echelon::Error(Code::kUsage, "no command '", words[0], "'; ", hint);
  echelon::check_commands(app, words);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    throw echelon::Error(Code::kUsage, error.what(), hint.empty() ? "" : "; " + hint, "; try '",
                         echelon::help_of(app, words), "'");
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  echelon::app::use_offered_output();
  // A file size limit must fail the write, whose error is reported, not kill the process.
  std::signal(SIGXFSZ, SIG_IGN);
  echelon::MachineOutput output({argv + 1, argv + argc});
  const auto fail = [&output](const echelon::Error& error) {
    output.report(error);
    return echelon::app::report_error(error, "");
  };
  try {
    // Generated text and recipe values are printed unchanged for programs that read them. All other output is
    // for people: control characters in quoted text must not reach a terminal.
    const std::string_view command = argc < 2 ? "" : argv[1];
    std::optional<echelon::TerminalOutput> safe;
    if (command != "sample" && command != "validate") safe.emplace();
    const int status = run(argc, argv);
    echelon::finish_standard_output();
    return status;
  } catch (const echelon::Error& error) {
    return fail(error);
  } catch (const std::exception&) {
    return fail(echelon::Error(Code::kEnvironment, "unexpected: ", echelon::caught()));
  }
}
