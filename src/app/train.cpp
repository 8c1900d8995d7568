#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "app/commands.h"
#include "app/early_checks.h"
#include "app/engine/engine.h"
#include "app/launcher/launch.h"
#include "app/launcher/step.h"
#include "app/model_check.h"
#include "app/plugin.h"
#include "base/log.h"
#include "base/number.h"
#include "base/process/process.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "base/terminal/status_line.h"
#include "bootstrap/job.h"

namespace echelon {

template <>
inline constexpr std::array<std::string_view, 3> kWords<log::Console>{"warn", "info", "debug"};

}  // namespace echelon

namespace echelon::app {
namespace {

struct TrainArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  int ranks = 0;
  std::string profile;
  log::Console console = log::Console::kUsual;
};

/// "10..12", or "10": one step.
ProfileRange read_profile(const std::string& text) {
  if (text.empty()) return {};
  ProfileRange range;
  const std::size_t dots = text.find("..");
  const std::string last = dots == text.npos ? text : text.substr(dots + 2);
  const bool numbers =
      read_integer(text.substr(0, dots), range.first).empty() && read_integer(last, range.last).empty();
  if (!numbers || range.first < 1 || range.last < range.first ||
      range.last - range.first >= kMostProfiledSteps) {
    throw Error(Code::kUsage, "--profile ", text,
                ": expected the first and the last step, e.g. 10..12, at most ", kMostProfiledSteps,
                " steps from 1 on");
  }
  return range;
}

/// Blocks stop signals until the engine is loaded and handles them (StopSignal). Until then their default
/// action would end the process, and the job with it.
void hold_stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGUSR2, SIGHUP, SIGQUIT}) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

/// Logs the first line of a run before anything slow, and once per run: the environment tells local ranks
/// that their launcher has logged it.
void tell_start(const Recipe& recipe, int ranks) {
  if (ranks == 0 && (!first_of_step() || std::getenv("ECHELON_START_TOLD") != nullptr)) return;
  if (ranks > 1) setenv("ECHELON_START_TOLD", "1", 1);
  log::info(str("starting run ", recipe.run.name, ranks > 1 ? str(" on ", ranks, " local ranks") : ""));
  log::flush();
}

int train(const TrainArguments& arguments, const CLI::App& command) {
  // A reader of the log, such as a pager or tee, may exit before the run ends: that must not end the run.
  std::signal(SIGPIPE, SIG_IGN);
  // A rank that trains answers it with a report (ReportRequest). Before and after, it would end the rank.
  std::signal(SIGUSR1, SIG_IGN);
  LoadedRecipe loaded;
  ProfileRange profile;
  int ranks = 0;
  log::show(arguments.console);
  if (arguments.console == log::Console::kWarnings) status_line::turn_off();
  once_per_step([&] {
    loaded = load_recipe(arguments.recipe, arguments.overrides);
    profile = read_profile(arguments.profile);
    ranks = local_ranks(arguments.ranks);
    if (ranks > 0 && arguments.ranks == 0) require_no_wide_batch_script();
    // The launcher of several ranks does not load the engine; a rank does anyway.
    if (ranks <= 1) check_against_model(loaded);
    check_early(loaded.recipe);
  });
  // With several local ranks the first rank logs this, as in any other job.
  if (ranks <= 1 && first_of_step()) tell_which(loaded);
  if (ranks > 0) validate_for_size(loaded.recipe, ranks);
  tell_start(loaded.recipe, ranks);
  // The run's time includes the launcher and the loading of the engine.
  if (ranks > 0) setenv("ECHELON_STARTED_AT", std::to_string(process_began_s()).c_str(), 0);
  if (ranks > 1) return launch_local_ranks(ranks, command_of_one_rank(command));
  hold_stop_signals();
  return engine_function<TrainFunction>("echelon_engine_train")(
      {.loaded = std::move(loaded),
       .launch = ranks == 0 ? Launch::kPmix : Launch::kSingle,
       .profile = profile,
       .console = arguments.console});
}

void add_log_level(CLI::App& command, log::Console& console) {
  CLI::Option* level = add_choice(command, "--log-level", console,
                                  "What of the log standard error has beside errors; logs/rank-R.log has all")
                           ->default_str("info");
  const auto add_short = [&](const char* name, log::Console value, const char* help) {
    const auto store = [&console, value](std::int64_t) { console = value; };
    return command.add_flag_function(name, store, help)->excludes(level);
  };
  add_short("--quiet,-q", log::Console::kWarnings, "Print nothing but warnings and errors: --log-level warn")
      ->excludes(add_short(
          "--verbose,-v", log::Console::kAll,
          "Print also what else only logs/rank-0.log has: units, memory, times: --log-level debug"));
}

}  // namespace

void add_train(CLI::App& app, int& status) {
  const auto [command, arguments] = add_command<TrainArguments>(
      app, "train",
      "Train from a recipe: one rank of the srun --mpi=pmix or mpirun step it is in, else local ranks",
      [&status](const TrainArguments& given, const CLI::App& own) { status = train(given, own); });
  command.add_option("recipe", arguments.recipe, "YAML file, or a name that `echelon recipes ls` prints")
      ->required();
  command.add_option("overrides", arguments.overrides, "key.path=value, e.g. optim.lr=3e-4; later ones win");
  command.add_option("--ranks", arguments.ranks, "Local ranks to start (default 1)")
      ->check(in_range(1, 4096));
  command.add_option("--profile", arguments.profile,
                     "Steps FIRST..LAST of which profile/ in the run folder tells where the time went");
  add_log_level(command, arguments.console);
}

}  // namespace echelon::app
