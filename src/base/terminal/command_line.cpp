#include "base/terminal/command_line.h"

#include <algorithm>

#include "base/foreign_text.h"
#include "base/log.h"
#include "base/number.h"
#include "base/terminal/status_line.h"

namespace echelon {
namespace {

std::string integer_problem(const std::string& text) {
  std::int64_t value = 0;
  return read_integer(text, value);
}

std::string count_problem(const std::string& text) {
  std::int64_t value = 0;
  const std::string problem = read_integer(text, value);
  return problem.empty() && value < 0 ? "is below 0" : problem;
}

std::string number_problem(const std::string& text) {
  double value = 0;
  return read_number(text, value);
}

void read_strictly(CLI::Option& option) {
  const std::string type = option.get_type_name();
  std::string (*find_problem)(const std::string&) = nullptr;
  if (type.starts_with("INT")) find_problem = integer_problem;
  if (type.starts_with("UINT")) find_problem = count_problem;
  if (type.starts_with("FLOAT")) find_problem = number_problem;
  if (find_problem == nullptr) return;
  CLI::Validator strict("");
  strict.operation([find_problem](std::string& text) {
    const std::string problem = find_problem(text);
    return problem.empty() ? problem : str('\'', printable(text), "' ", problem);
  });
  option.transform(strict);  // a transform runs before range checks, which would accept nan
}

std::vector<std::string> names_of_commands(const CLI::App& app) {
  return mapped(commands_of(app), [](const CLI::App* command) { return command->get_name(); });
}

}  // namespace

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

void read_numbers_strictly(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) read_strictly(*option);
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    read_numbers_strictly(*command);
}

void add_quiet(CLI::App& command) {
  const auto be_quiet = [](std::int64_t) {
    log::show(log::Console::kWarnings);
    status_line::turn_off();  // for the engine and for local ranks too
  };
  command.add_flag_function(command.get_option_no_throw("-q") == nullptr ? "-q,--quiet" : "--quiet", be_quiet,
                            "Print no progress: results, warnings and errors only");
}

CLI::Option* add_json(CLI::App& command, bool& json) {
  return command.add_flag("--json", json, "Print one JSON value instead of text, also for an error");
}

CLI::Option* add_bytes(CLI::App& command, const std::string& name, double& bytes, const std::string& help) {
  const auto problem = [](std::string& text) {
    double value = 0;
    const std::string found = read_bytes(text, value);
    return found.empty() ? found : str('\'', printable(text), "' ", found);
  };
  const auto store = [&bytes](const std::string& text) { (void)read_bytes(text, bytes); };
  return command.add_option_function<std::string>(name, store, help)->check(CLI::Validator(problem, "BYTES"));
}

CLI::Validator above_zero() {
  const auto problem = [](std::string& text) {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value > 0) return std::string();
    return str("Value ", text, " is not above 0");
  };
  return CLI::Validator(problem, "POSITIVE");
}

std::string help_of(const CLI::App& app, const std::vector<std::string>& words) {
  std::string text = app.get_name();
  const CLI::App* at = &app;
  for (const std::string& word : words) {
    const auto commands = commands_of(*at);
    const auto found = std::ranges::find(commands, word, [](const CLI::App* one) { return one->get_name(); });
    if (found == commands.end()) break;
    text += ' ' + word;
    at = *found;
  }
  return text + " --help";
}

void check_commands(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  std::string before;
  for (std::size_t i = 0; at->get_require_subcommand_min() > 0; ++i) {
    const std::vector<std::string> names = names_of_commands(*at);
    const std::string all = str("there are ", join(names, ", "), "; try '", help_of(app, words), "'");
    if (i == words.size()) {
      throw Error(Code::kUsage, before.empty() ? "no command given; " : before + "needs a command; ", all);
    }
    if (words[i].starts_with('-')) return;
    if (std::ranges::find(names, words[i]) == names.end()) {
      const std::string meant = nearest(words[i], names);
      throw Error(Code::kUsage, "no command '", before, printable(words[i]), "'; ",
                  meant.empty() ? all : str("did you mean '", before, meant, "'?"));
    }
    at = at->get_subcommand(words[i]);
    before += words[i] + ' ';
  }
}

}  // namespace echelon
