#include <unistd.h>

#include <string>
#include <vector>

#include "app/commands.h"
#include "base/terminal/command_line.h"
#include "base/terminal/status_line.h"
#include "base/utc_time.h"
#include "report/watch/screen.h"

namespace echelon::app {
namespace {

constexpr double kPause_s = 1;

struct WatchArguments {
  std::string run;
  bool once = false;
};

std::vector<std::string> look(report::RunReader& reader, const report::ViewSize& size, bool& over) {
  const double now_s = utc_now_s();
  const report::RunRecord run = reader.read(now_s);
  over = run.has_ended();
  return report::view(run, reader.metrics(), now_s, size);
}

void watch(const WatchArguments& arguments) {
  report::RunReader reader(arguments.run);
  bool over = false;
  std::vector<std::string> lines;
  const bool redraws = !arguments.once && status_line::is_possible(STDOUT_FILENO);
  if (redraws) {
    report::Screen screen(true);
    do {
      lines = look(reader, screen.size(), over);
      screen.draw(lines);
    } while (!over && !screen.wait(kPause_s));
  }
  // What was seen last stays, behind the screen that is gone.
  report::Screen plain(false);
  if (!redraws) lines = look(reader, plain.size(), over);
  plain.draw(lines);
}

}  // namespace

void add_watch(CLI::App& app, int&) {
  const auto [command, arguments] =
      add_command<WatchArguments>(app, "watch", "Follow a run on the terminal until it ends", watch);
  command.add_option("run", arguments.run, "Run folder (run.dir)")->required();
  command.add_flag("--once", arguments.once, "Show it once; so it is, too, where output is no terminal");
}

}  // namespace echelon::app
