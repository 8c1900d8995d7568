#include "run/job_end.h"

#include <cstdlib>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/number.h"
#include "base/process/program.h"
#include "base/str.h"
#include "base/utc_time.h"

namespace echelon {
namespace {

constexpr double kLatest_s = 1e11;

std::optional<double> parse_seconds(const std::string& text) {
  double value = 0;
  const bool sound = read_number(text, value).empty() && value >= 0 && value <= kLatest_s;
  return sound ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<double> parse_job_end(std::string_view text) {
  const std::string line(
      text.substr(0, text.find('\n')));  // the first line: a heterogeneous job has one per component
  if (line == "NONE" || line == "UNLIMITED") return std::numeric_limits<double>::infinity();
  if (line.empty() || line.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  const auto end_s = parse_seconds(line);
  return end_s && *end_s > 0 ? end_s : std::nullopt;
}

std::optional<double> ask_job_end(double patience_s) {
  const char* job = std::getenv("SLURM_JOB_ID");
  if (job == nullptr) return std::nullopt;
  try {
    // Slurm's tools format times with strftime: %s gives seconds, independent of the user's format and time
    // zone.
    const ProgramRun run = run_program(
        {"env", "SLURM_TIME_FORMAT=%s", "squeue", "--noheader", "--jobs", job, "--format=%e"}, patience_s);
    if (run.good()) return parse_job_end(run.out);
    log::note("cannot get the end of the job from Slurm: " + run.trouble("squeue"));
  } catch (const Error& e) {
    log::note(str("cannot get the end of the job from Slurm: ", e.what()));
  }
  return std::nullopt;
}

std::optional<double> job_end(double now_s) {
  const auto stated = seconds_in_environment("SLURM_JOB_END_TIME");
  if (stated && *stated > now_s) return stated;
  const auto asked = ask_job_end();
  if (asked && *asked > now_s) return asked;
  const auto past = asked ? asked : stated;
  if (past) {
    log::warn(str(
        "the job's end (", describe_utc(*past, now_s), asked ? ", says squeue" : ", says SLURM_JOB_END_TIME",
        ") has passed, but it is still running: ", "without a known end, the run stops only on a signal"));
  }
  return std::nullopt;
}

std::optional<double> seconds_in_environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::nullopt : parse_seconds(text);
}

}  // namespace echelon
