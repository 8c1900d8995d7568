#include "app/submit/program.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace echelon::submit {
namespace {

constexpr double kPatience_s = 300;
constexpr std::size_t kMostOutput = std::size_t{4} << 20;

/// The environment for a program that this process starts.
std::vector<std::string> environment(const std::vector<std::string>& without) {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    // Variables of a surrounding job would be passed to the new job. The exceptions are settings of the user.
    const bool of_a_job =
        name.starts_with("SLURM_") && name != "SLURM_CONF" && !name.starts_with("SLURM_PMIX_");
    if (!of_a_job && std::ranges::find(without, name) == without.end()) kept.emplace_back(text);
  }
  return kept;
}

}  // namespace

ProgramRun run_command(const std::vector<std::string>& command, const std::vector<std::string>& without) {
  // Same process group, so that Ctrl-C ends sbatch too.
  ProgramRun run = run_program(command, {.deadline_s = kPatience_s,
                                         .own_group = false,
                                         .most_output = kMostOutput,
                                         .killed_beyond = true,
                                         .environment = environment(without)});
  if (!run.found) throw Error(Code::kEnvironment, "cannot start ", command[0], ": it is not in PATH");
  if (run.timed_out || run.overflowed)
    throw Error(Code::kEnvironment, command[0], " was stopped: it did not end within ", kPatience_s,
                " s, or printed without end");
  return run;
}

}  // namespace echelon::submit
