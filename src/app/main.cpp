#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string_view>
#include <variant>

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
#include "recipe/builtin.h"
#include "recipe/keys/keys.h"
#include "report/record/run_record.h"

namespace echelon::app {
namespace {

constexpr std::array<std::string_view, 12> kOfTheTool{"ls",     "inspect", "verify",  "consolidate",
                                                      "export", "view",    "salvage", "diff",
                                                      "import", "reshard", "prune",   "gc"};

/// Options of mpirun, torchrun, accelerate and Slurm.
constexpr std::array<std::string_view, 7> kRanks{
    "-n", "-np", "--np", "--nproc_per_node", "--nproc-per-node", "--num_processes", "--ntasks"};

std::string hint_for_option(const std::string& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const std::string key = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  if (key.find('.') != key.npos && recipe::is_section(key.substr(0, key.find('.'))))
    return str("a recipe's keys are given without dashes: ", key,
               word.find('=') == word.npos ? "=VALUE" : word.substr(name.size()));
  if (std::ranges::find(kRanks, name) == kRanks.end()) return "";
  return command == "submit" || command == "plan"
             ? "the number of ranks is --nodes N times --tasks-per-node M"
             : "the number of local ranks is --ranks N";
}

/// Returns the likely meaning of a command line that was refused, or "". `words`: behind the program's name.
std::string hint_for(const std::vector<std::string>& words) {
  if (words.empty()) return "";
  if (std::ranges::find(kOfTheTool, words[0]) != kOfTheTool.end())
    return str("'echelon-ckpt ", words[0], "' does that");
  for (const std::string& word : words) {
    const std::string hint = word.starts_with('-') ? hint_for_option(words[0], word) : "";
    if (!hint.empty()) return printable(hint);
  }
  return "";
}

std::vector<Candidate> builtin_names() {
  std::vector<Candidate> found;
  for (const recipe::BuiltinRecipe& each : recipe::builtin_recipes())
    found.push_back({std::string(each.name), recipe::summary(each)});
  return found;
}

std::vector<Candidate> recipes(const std::string& begun) {
  std::vector<Candidate> found = paths_that_begin(
      begun, [](const std::string& path) { return path.ends_with(".yaml") || path.ends_with(".yml"); });
  const std::vector<Candidate> names = builtin_names();
  found.insert(found.end(), names.begin(), names.end());
  return found;
}

std::vector<Candidate> values_of(const recipe::Key& key) {
  std::vector<Candidate> found;
  Recipe any;
  if (const auto* choices = std::get_if<recipe::Choices>(&key.rule)) {
    for (const auto& choice : choices->values) found.push_back({choice.value, choice.meaning});
  } else if (std::holds_alternative<bool*>(key.slot(any))) {
    found = {{"true", ""}, {"false", ""}};
  }
  return found;
}

/// Sections, behind a section's point its keys, behind '=' the values of a key.
std::vector<Candidate> overrides(const std::string& begun) {
  std::vector<Candidate> found;
  const std::size_t equals = begun.find('=');
  if (equals != begun.npos) {
    const recipe::Key* key = recipe::find_key(begun.substr(0, equals));
    if (key != nullptr) found = values_of(*key);
    for (Candidate& candidate : found) candidate.text.insert(0, begun, 0, equals + 1);
  } else if (begun.find('.') == begun.npos) {
    for (const recipe::Section& section : recipe::sections())
      if (section.path.find('.') == section.path.npos) found.push_back({section.path + '.', section.meaning});
  } else {
    for (const recipe::Key& key : recipe::keys()) found.push_back({key.path + '=', key.meaning});
  }
  return found;
}

/// The values of arguments for completion: recipes, a recipe's keys and their values, run folders. Empty
/// where any file may stand.
std::vector<Candidate> argument_values(const std::string& name, const std::string& begun) {
  if (name == "recipe" || name == "other_recipe") return recipes(begun);
  if (name == "name") return builtin_names();
  if (name == "overrides") return overrides(begun);
  if (name == "run" || name == "runs" || name == "checkpoint")
    return paths_that_begin(begun, [](const std::string& path) { return report::holds_run(path); });
  return {};
}

/// The versions in use, one per line. Those of the engine come from the engine; without one, the text says
/// so.
std::string versions() {
  std::string text = str("echelon ", ECHELON_VERSION, "\n", pmix_version(), "\n");
  try {
    text += engine_function<VersionFunction>("echelon_engine_versions")();
  } catch (const Error& error) {
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
  add_train(app, status);
  add_validate(app, status);
  add_plan(app, status);
  add_prove(app, status);
  add_submit(app, status);
  add_supervise(app, status);
  add_recipes(app, status);
  add_init(app, status);
  add_prepare(app, status);
  add_sample(app, status);
  add_evaluate(app, status);
  add_report(app, status);
  add_watch(app, status);
  add_runs(app, status);
  add_metrics(app, status);
  add_doctor(app, status);
  add_completion(app);
  add_manual(app);
  read_numbers_strictly(app);
  const std::vector<std::string> words{argv + 1, argv + argc};
  if (!words.empty() && words[0] == "complete") return print_completion(app, words, argument_values);
  const std::string hint = hint_for(words);
  if (hint.starts_with("'echelon-ckpt ")) throw Error(Code::kUsage, "no command '", words[0], "'; ", hint);
  check_commands(app, words);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    throw Error(Code::kUsage, error.what(), hint.empty() ? "" : "; " + hint, "; try '", help_of(app, words),
                "'");
  }
  return status;
}

}  // namespace
}  // namespace echelon::app

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
    const int status = echelon::app::run(argc, argv);
    echelon::finish_standard_output();
    return status;
  } catch (const echelon::Error& error) {
    return fail(error);
  } catch (const std::filesystem::filesystem_error&) {  // a loop of links, a name that is too long
    return fail(echelon::Error(echelon::Code::kEnvironment, echelon::caught()));
  } catch (const std::exception&) {
    return fail(echelon::Error(echelon::Code::kEnvironment, "unexpected: ", echelon::caught()));
  }
}
