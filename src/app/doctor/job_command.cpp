#include <cmath>
#include <memory>

#include "app/doctor/checks/card_checks.h"
#include "app/doctor/commands.h"
#include "app/doctor/machine/shared_folder.h"
#include "app/doctor/rates/compute_rate.h"
#include "app/doctor/rates/exchange.h"
#include "app/doctor/rates/network_rate.h"
#include "app/doctor/report.h"
#include "app/engine/engine.h"
#include "app/launcher/launch.h"
#include "app/launcher/step.h"
#include "app/plugin.h"
#include "base/files/new_file.h"
#include "base/process/process.h"
#include "base/steady_time.h"
#include "base/terminal/command_line.h"
#include "base/terminal/progress_bar.h"
#include "base/utc_time.h"
#include "comm/communicator.h"
#include "comm/mpi/mpi_world.h"

namespace echelon::app::doctor {
namespace {

struct JobArguments {
  CommonArguments common;
  int ranks = 0;
  std::string folder = ".";
  double timeout_s = 15;
  double slow = 0.7;
  std::string calibrate;  ///< file for a profile; empty: none
};

constexpr std::uint64_t kWriteBytes = std::uint64_t{16} << 20;
constexpr double kComputeS = 1.0;
constexpr double kLongExchangeMs = 5000;

std::vector<NodeCard> exchange_cards(Job& job, const Machine& machine, Report& report) {
  NodeCard mine = make_card(machine, job.info());
  job.fence("doctor card");  // so that the time of the exchange excludes waiting for late ranks
  const double start_s = steady_now_s();
  mine.clock_s = utc_now_s();
  std::vector<NodeCard> cards = exchange_facts(job, "doctor card", mine);
  const double ms = std::round((steady_now_s() - start_s) * 1e4) / 10;
  const JobInfo& info = job.info();
  Finding finding =
      ok("pmix", str(counted(info.size, "rank"), " on ", counted(info.num_nodes, "node"), ", started by ",
                     info.launcher, ", exchange their cards through ", pmix_version(), " in ", ms, " ms"));
  finding.values = {{"ranks", info.size}, {"nodes", info.num_nodes}, {"exchange_ms", ms}};
  if (ms > kLongExchangeMs) {
    finding.verdict = Verdict::kWarning;
    finding.advice =
        "check for lost packets between the nodes; SLURM_PMIX_FENCE=ring is the most reliable setting";
  }
  report.add(std::move(finding));
  return cards;
}

/// Warns of a batch script for several nodes that runs this command without srun.
void check_launch(const JobInfo& info, Report& report) {
  const std::string nodes = environment_variable("SLURM_JOB_NUM_NODES");
  if (info.size > 1 || nodes.empty() || nodes == "1") return;
  report.add(warning("launch",
                     str("one rank alone in a job of ", nodes, " nodes: only this node was examined"),
                     "srun --mpi=pmix --ntasks-per-node=N echelon doctor job"));
}

/// Runs all checks. Returns whether MPI can be finalized.
bool examine(Job& job, const JobArguments& arguments, Report& report) {
  const ProgressBar bar("examining the nodes");
  const JobInfo& info = job.info();
  const std::vector<NodeCard> cards = exchange_cards(job, Machine(arguments.common.root), report);
  check_launch(info, report);
  report.add(check_cards(cards));
  report.add(examine_shared_folder(job, arguments.folder, kWriteBytes, arguments.slow));
  report.add(examine_compute_rate(job, kComputeS, arguments.slow));
  const std::vector<Finding> network = examine_network(job, arguments.timeout_s, arguments.slow);
  const bool in_order = network.empty() || network[0].verdict == Verdict::kOk;
  report.add(network);
  return in_order;
}

/// Writes the profile of these ranks for `echelon plan --gpu FILE`. Collective.
void calibrate(Job& job, const JobArguments& arguments, Report& report) {
  std::string profile;
  std::string trouble;
  const ProgressBar bar("timing operations and collectives, about a minute");
  const double start_s = steady_now_s();
  const std::unique_ptr<Communicator> comm = make_mpi_communicator(job, arguments.timeout_s);
  const int status =
      engine_function<CalibrateFunction>("echelon_engine_calibrate")(job, *comm, profile, trouble);
  if (status != 0) throw Error(static_cast<Code>(status), trouble);
  if (job.info().rank != 0) return;
  fs::publish_file(arguments.calibrate, profile, Code::kEnvironment);
  report.add(
      ok("calibrate", str("operations and collectives were timed for ", std::round(steady_now_s() - start_s),
                          " s; `echelon plan RECIPE --gpu ", arguments.calibrate, "` uses the profile")));
}

/// Joins the job. If that fails, the first rank also prints a report.
std::unique_ptr<Job> join_job(const JobArguments& arguments, Report& report) {
  try {
    const ProgressBar bar("waiting for all ranks");
    return bootstrap(inside_launched_step() ? Launch::kPmix : Launch::kSingle, arguments.timeout_s);
  } catch (const Error& error) {
    if (!first_of_step()) throw;
    report.add(fault("pmix", error.what(), "docs/bootstrap.md lists what is refused and why"));
    report.finish(arguments.common.json);
    throw;
  }
}

/// A rank did not arrive or answer. Rank 0 prints the findings so far and the nodes it waited for.
[[noreturn]] void tell_of_loss(const JobInfo& info, const Error& error, const JobArguments& arguments,
                               Report& report) {
  if (info.rank == 0) {
    std::vector<std::string> nodes;
    const std::string text = error.what();
    for (const std::string& host : info.hosts)
      if (text.find("(" + host + ")") != text.npos) nodes.push_back(host);
    report.add(fault("exchange", text, "examine the named node, or leave it out (--exclude)", nodes));
    report.finish(arguments.common.json);
  }
  throw Error(Code::kEnvironment, error.what());
}

void doctor_job(const JobArguments& arguments) {
  Report report("job");
  const std::unique_ptr<Job> job = join_job(arguments, report);
  bool in_order = false;
  try {
    in_order = examine(*job, arguments, report);
    if (in_order && !arguments.calibrate.empty()) calibrate(*job, arguments, report);
  } catch (const Error& error) {
    tell_of_loss(job->info(), error, arguments, report);
  }
  if (in_order) {
    finish_mpi();
    job->finish();
  }
  const bool leads = job->info().rank == 0;
  try {
    if (leads) report.finish(arguments.common.json);
  } catch (const Error&) {
    if (!in_order) job->fence("doctor report");
    throw;
  }
  // A faulty MPI may hang when finalized, so it is not. The other ranks wait until the report is printed:
  // when a rank exits without finishing the job, the launcher ends all ranks.
  if (!in_order) job->fence("doctor report");
}

int run(const JobArguments& arguments, const CLI::App& command) {
  if (first_of_step()) fs::require_output(arguments.calibrate);
  if (local_ranks(arguments.ranks) <= 1) {
    doctor_job(arguments);
    return 0;
  }
  return launch_local_ranks(arguments.ranks, command_of_one_rank(command));
}

}  // namespace

void add_job(CLI::App& doctor, int& status) {
  const auto [command, arguments] = add_command<JobArguments>(
      doctor, "job",
      "Check that the nodes of an allocation are healthy and alike: "
      "srun --mpi=pmix echelon doctor job; < 20 s",
      [&status](const JobArguments& given, const CLI::App& own) { status = run(given, own); });
  command.add_option("--ranks", arguments.ranks, "Start this many local ranks first")
      ->check(in_range(1, 4096));
  command.add_option("--folder", arguments.folder, "Folder on the shared file system")->capture_default_str();
  command.add_option("--slow", arguments.slow, "A node below this share of the others' speed is a fault")
      ->check(in_range(0.01, 1.0))
      ->capture_default_str();
  command.add_option("--calibrate", arguments.calibrate,
                     "Also time the operations of small models and the collectives of these CPU ranks, and "
                     "write a profile for `echelon plan --gpu FILE`; about a minute");
  command.add_option("--timeout", arguments.timeout_s, "Longest wait for the other ranks, seconds")
      ->check(above_zero())
      ->capture_default_str();
  add_common(command, arguments.common);
  add_quiet(command);
}

}  // namespace echelon::app::doctor
