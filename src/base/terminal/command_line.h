#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/str.h"

/// What both programs' command lines do beside what CLI11 does.
namespace echelon {

/// From now on the numbers among the options of `app` and of its commands are read as those of a recipe are
/// (base/number.h). CLI11 alone takes nan, 0x10 and 1e23, and -1 for a number that has no sign. To be called
/// when all options are there.
void read_numbers_strictly(CLI::App& app);

/// Numbers from `least` to `most`. CLI11's own says it in other words in each version.
template <class T>
[[nodiscard]] CLI::Validator in_range(T least, T most) {
  const auto problem = [least, most](std::string& text) {
    T value{};
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return std::string();
    return str("Value ", text, " not in range ", least, " to ", most);
  };
  return CLI::Validator(problem, str(CLI::detail::type_name<T>(), " in [", least, " - ", most, "]"));
}

/// Numbers above 0.
[[nodiscard]] CLI::Validator above_zero();

/// `words`: the command line behind the program's name. Throws Error(kUsage) when they name no command of
/// `app`, or one that has commands of its own and none of them; it tells the nearest, or all. Words that
/// begin with '-' are left to CLI11.
void check_commands(const CLI::App& app, const std::vector<std::string>& words);

/// Standard output of a command that may be one for programs (--json): while this lives, it is known whether
/// anything was printed. Make it before anything is.
class MachineOutput {
 public:
  /// `words`: the command line behind the program's name.
  explicit MachineOutput(const std::vector<std::string>& words);
  MachineOutput(const MachineOutput&) = delete;
  MachineOutput& operator=(const MachineOutput&) = delete;
  ~MachineOutput();

  /// With --json, where the command printed no report of its own: {"error": {"code": .., "message": ".."}}.
  /// Of the ranks of a job only the first prints, and nobody what is reported already.
  void report(const Error& error);

 private:
  class Watch;
  bool wanted_;
  std::unique_ptr<Watch> watch_;
};

}  // namespace echelon
