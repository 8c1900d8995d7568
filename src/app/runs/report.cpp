#include <chrono>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "app/commands.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "base/files/own_file.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "base/utc_time.h"
#include "report/page/page.h"

namespace echelon::app {
namespace {

constexpr double kUsualPause_s = 10;
constexpr std::size_t kMostRuns = 8;  // curves that can be told apart

struct ReportArguments {
  std::vector<std::string> runs;
  std::string output;
  double watch_s = 0;
};

fs::Path output_of(const ReportArguments& arguments) {
  if (!arguments.output.empty()) return arguments.output;
  if (arguments.runs.size() == 1) return fs::Path(arguments.runs[0]) / "report.html";
  throw Error(Code::kUsage, "report: several runs need a file for the page that compares them: add -o FILE");
}

/// A file that was not made here may be somebody's only copy of something.
void require_replaceable(const fs::Path& output) {
  if (!std::filesystem::exists(std::filesystem::symlink_status(output))) return;
  constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;
  const auto refuse = [&](const std::string& why) {
    throw Error(Code::kUsage, "report: '", output.string(), "' ", why,
                " and is not replaced; name another file with -o");
  };
  if (std::filesystem::is_directory(output)) refuse("is a folder");
  if (!fs::read_own_file(output, kMostBytes, Code::kUsage).starts_with(report::kPageBegin))
    refuse("was not made by this command");
}

/// Writes the page; returns whether all runs have ended.
bool write_page(std::vector<report::RunReader>& readers, const fs::Path& output, double watch_s) {
  const double now_s = utc_now_s();
  std::vector<report::RunRecord> records;
  bool ended = true;
  for (report::RunReader& reader : readers) {
    records.push_back(reader.read(now_s));
    ended = ended && records.back().state != report::RunState::kRunning;
  }
  std::vector<report::RunView> views;
  for (std::size_t i = 0; i < readers.size(); ++i) views.push_back({records[i], readers[i].metrics()});
  const report::PageOptions options{
      .now_s = now_s, .reload_s = ended ? 0 : watch_s, .version = ECHELON_VERSION};
  fs::publish_file(output, report::page(views, options), Code::kEnvironment);
  return ended;
}

void report_on(const ReportArguments& arguments) {
  if (arguments.runs.size() > kMostRuns)
    throw Error(Code::kUsage, "report: ", arguments.runs.size(), " runs; expected at most ", kMostRuns,
                " in one page");
  const fs::Path output = output_of(arguments);
  std::vector<report::RunReader> readers;
  for (const std::string& run : arguments.runs) readers.emplace_back(run);
  require_replaceable(output);
  bool ended = write_page(readers, output, arguments.watch_s);
  std::cout << output.string() << std::endl;
  while (arguments.watch_s > 0 && !ended) {
    std::this_thread::sleep_for(std::chrono::duration<double>(arguments.watch_s));
    ended = write_page(readers, output, arguments.watch_s);
  }
}

}  // namespace

void add_report(CLI::App& app, int&) {
  const auto [command, arguments] = add_command<ReportArguments>(
      app, "report", "Write one HTML page about a run, or that compares several", report_on);
  command.add_option("runs", arguments.runs, "Run folders (run.dir)")->required();
  command.add_option("-o,--output", arguments.output, "The page (default: report.html in the run's folder)");
  command
      .add_option("--watch", arguments.watch_s,
                  "Write the page again every SECONDS (10) until the run ends; it reloads itself")
      ->expected(0, 1)
      ->default_str(str(kUsualPause_s))
      ->check(in_range(1.0, 86'400.0));
}

}  // namespace echelon::app
