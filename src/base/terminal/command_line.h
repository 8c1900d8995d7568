#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/options/choice.h"
#include "base/str.h"

/// Additions to CLI11 for both programs' command lines.
namespace echelon {

/// Makes the numeric options of `app` and its commands follow the rules of recipes (base/number.h). CLI11
/// alone accepts nan, 0x10 and 1e23, and -1 for unsigned numbers. Call it after all options are defined.
void read_numbers_strictly(CLI::App& app);

/// Accepts numbers from `least` to `most`. CLI11's own check is not used, because its message differs between
/// versions.
template <class T>
[[nodiscard]] CLI::Validator in_range(T least, T most) {
  const auto problem = [least, most](std::string& text) {
    T value{};
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return std::string();
    return str("Value ", text, " not in range ", least, " to ", most);
  };
  return CLI::Validator(problem, str(CLI::detail::type_name<T>(), " in [", least, " - ", most, "]"));
}

/// An option that takes one of an enum's words; `choice` holds the default and outlives the parsing. The
/// first `unoffered` words cannot be chosen.
template <HasWords Choice>
CLI::Option* add_choice(CLI::App& command, const std::string& name, Choice& choice, const std::string& help,
                        std::size_t unoffered = 0) {
  const auto store = [&choice](const std::string& word) { choice = choice_of<Choice>(word).value(); };
  return command.add_option_function<std::string>(name, store, help)
      ->check(
          CLI::IsMember(std::vector<std::string>(kWords<Choice>.begin() + unoffered, kWords<Choice>.end())));
}

/// An option that takes a number of bytes above 0: 4096B, 16GiB (1024) or 1.5GB (1000). `bytes` outlives the
/// parsing.
CLI::Option* add_bytes(CLI::App& command, const std::string& name, double& bytes, const std::string& help);

/// Adds -q, --quiet to a command that tells on standard error how its work goes on; where -q is another
/// option, the long name alone. Warnings and errors are still printed.
void add_quiet(CLI::App& command);

/// Adds --json, with which a command prints one JSON value. MachineOutput prints that of an error.
CLI::Option* add_json(CLI::App& command, bool& json);

/// Adds a command whose options are stored in an `Arguments`, which lives as long as it. `run` gets them, and
/// the command if it takes that too, when the command was given.
template <class Arguments, class Run>
std::pair<CLI::App&, Arguments&> add_command(CLI::App& app, const std::string& name, const std::string& help,
                                             Run run) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(name, help);
  command->callback([arguments, command, run] {
    [[maybe_unused]] const CLI::App& own = *command;
    if constexpr (std::is_invocable_v<Run, Arguments&, const CLI::App&>) {
      run(*arguments, own);
    } else {
      run(*arguments);
    }
  });
  return {*command, *arguments};
}

/// Numbers above 0.
[[nodiscard]] CLI::Validator above_zero();

/// Returns the commands of a program or of a command, in the order of its help.
[[nodiscard]] std::vector<const CLI::App*> commands_of(const CLI::App& app);

/// Returns whether a word behind the option's name, or in its place, is its value; false: a flag.
[[nodiscard]] inline bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

/// "NAME COMMAND --help" for the command of `app` that `words` begin with.
[[nodiscard]] std::string help_of(const CLI::App& app, const std::vector<std::string>& words);

/// `words`: the command line behind the program's name. Throws Error(kUsage) when they name no command of
/// `app`, or one that has commands of its own and none of them; it tells the nearest, or all. Words that
/// begin with '-' are left to CLI11.
void check_commands(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace echelon
