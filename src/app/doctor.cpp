#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "app/commands.h"
#include "app/devices.h"
#include "app/doctor/commands.h"
#include "app/doctor/rates/exchange.h"
#include "app/launcher/launch.h"
#include "app/launcher/step.h"
#include "base/foreign_text.h"
#include "base/process/cores.h"
#include "base/process/process.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "bootstrap/job.h"
#include "comm/communicator.h"
#include "comm/mpi/mpi_worker.h"
#include "comm/mpi/mpi_world.h"

namespace echelon::app {
namespace {

using nlohmann::json;

struct DoctorArguments {
  bool json = false;
  int ranks = 0;
  double timeout_s = 30.0;
};

constexpr std::size_t kGatherBytes = std::size_t{16} << 20;

json::object_t card_of(const JobInfo& info) {
  const std::vector<int> cores = bound_cores();
  const Driver driver = find_driver();
  return {{"rank", info.rank},
          {"host", info.host},
          {"node", info.node},
          {"local_rank", info.local_rank},
          {"pid", getpid()},
          {"cores", cores.size()},
          {"cpu_affinity", cores.empty() ? "?" : list_of_cores(cores)},
          {"machine_cores", std::thread::hardware_concurrency()},
          {"gpus", driver.gpus},
          {"driver", driver.state},
          {"nccl", find_nccl()}};
}

template <class Body>
double milliseconds(Body&& body) {
  const double start_s = steady_now_s();
  body();
  return 1e3 * (steady_now_s() - start_s);
}

json time_communication(Job& job, double timeout_s) {
  std::unique_ptr<Communicator> world;
  const double start_ms = milliseconds([&] { world = make_mpi_communicator(job, timeout_s); });
  json times{
      {"library", mpi_library_version()}, {"thread_level", mpi_thread_level()}, {"start_ms", start_ms}};
  constexpr int kRounds = 20;
  world->barrier("warm-up");
  times["barrier_ms"] = milliseconds([&] {
                          for (int n = 0; n < kRounds; ++n) world->barrier("doctor");
                        }) /
                        kRounds;
  const std::size_t slot = kGatherBytes / static_cast<std::size_t>(world->size());
  std::vector<std::byte> buffer(slot * static_cast<std::size_t>(world->size()));
  const auto gather = [&] { world->all_gather(buffer.data(), slot, DType::kU8, "doctor").wait(); };
  gather();  // not timed: touches the memory
  constexpr int kGathers = 5;
  const double gather_ms = milliseconds([&] {
                             for (int n = 0; n < kGathers; ++n) gather();
                           }) /
                           kGathers;
  times["all_gather_bytes"] = buffer.size();
  times["all_gather_ms"] = gather_ms;
  times["received_gb_per_s"] = static_cast<double>(buffer.size() - slot) / gather_ms / 1e6;
  return times;
}

std::string text_of(const json& found) {
  std::string text =
      str(found["pmix"].get<std::string>(), ", started by ", found["launcher"].get<std::string>(), ": ",
          found["ranks"], " ranks on ", found["nodes"], " nodes\n");
  if (found.contains("server"))
    text += str("PMIx namespace ", found["namespace"].get<std::string>(), ", server's library ",
                found["server"].get<std::string>(), "\n");
  for (const json& card : found["cards"]) {
    text += str("  rank ", card["rank"], "  ", card["host"].get<std::string>(), " (node ", card["node"],
                ", local rank ", card["local_rank"], ")  cores ", card["cpu_affinity"].get<std::string>(),
                " (", card["cores"], " of ", card["machine_cores"], ")  ", card["gpus"].size(), " GPUs",
                card["gpus"].empty() ? "" : ": " + card["gpus"][0].get<std::string>(), "\n");
  }
  const json& card = found["cards"][0];
  text += str(card["driver"].get<std::string>(), "; ", card["nccl"].get<std::string>(), "\n");
  text +=
      str("start-up ", found["bootstrap_ms"], " ms, exchange of all cards ", found["exchange_ms"], " ms\n");
  if (found.contains("mpi")) {
    const json& mpi = found["mpi"];
    text += str(mpi["library"].get<std::string>(), ", ", mpi["thread_level"].get<std::string>(),
                ", started in ", mpi["start_ms"], " ms: barrier ", mpi["barrier_ms"], " ms, all-gather of ",
                human_bytes(mpi["all_gather_bytes"].get<std::uint64_t>()), " ", mpi["all_gather_ms"], " ms, ",
                mpi["received_gb_per_s"], " GB/s received per rank\n");
  }
  return text;
}

/// Three decimal places are enough.
void round_numbers(json& value) {
  if (value.is_number_float()) value = std::round(value.get<double>() * 1000.0) / 1000.0;
  if (value.is_structured()) {
    for (json& child : value) round_numbers(child);
  }
}

void examine_bootstrap(const DoctorArguments& arguments) {
  std::unique_ptr<Job> job;
  const Launch launch = inside_launched_step() ? Launch::kPmix : Launch::kSingle;
  const double bootstrap_ms = milliseconds([&] { job = bootstrap(launch, arguments.timeout_s); });
  const JobInfo info = job->info();
  json found{{"pmix", pmix_version()},
             {"launcher", info.launcher},
             {"ranks", info.size},
             {"nodes", info.num_nodes},
             {"bootstrap_ms", bootstrap_ms}};
  if (launch == Launch::kPmix) {
    found["namespace"] = environment_variable("PMIX_NAMESPACE", "unknown");
    found["server"] = environment_variable("PMIX_VERSION", "unknown");
  }
  const json::object_t card = card_of(info);
  job->fence("doctor");  // so that the time of the exchange excludes waiting for late ranks
  found["exchange_ms"] =
      milliseconds([&] { found["cards"] = doctor::exchange_facts(*job, "doctor card", card); });
  if (info.size > 1) {
    found["mpi"] = time_communication(*job, arguments.timeout_s);
    finish_mpi();
  }
  job->finish();
  if (info.rank != 0) return;
  round_numbers(found);
  std::cout << (arguments.json ? json_text(found) + "\n" : text_of(found)) << std::flush;
}

int run_bootstrap(const DoctorArguments& arguments, const CLI::App& command) {
  if (arguments.ranks == 0) {
    examine_bootstrap(arguments);
    return 0;
  }
  return launch_local_ranks(local_ranks(arguments.ranks), command_of_one_rank(command));
}

}  // namespace

void add_doctor(CLI::App& app, int& status) {
  CLI::App* doctor = app.add_subcommand(
      "doctor", "Find out why a recipe, cluster or job would fail. Exit code 0: no fault, 3: faults found");
  doctor->require_subcommand(1);
  doctor::add_recipe(*doctor);
  doctor::add_cluster(*doctor);
  doctor::add_job(*doctor, status);
  doctor::add_install(*doctor);
  const auto [command, arguments] = add_command<DoctorArguments>(
      *doctor, "bootstrap",
      "How ranks find each other and communicate: alone, under mpirun, or as "
      "srun --mpi=pmix echelon doctor bootstrap",
      [&status](const DoctorArguments& given, const CLI::App& own) { status = run_bootstrap(given, own); });
  add_json(command, arguments.json);
  command.add_option("--ranks", arguments.ranks, "Start this many local ranks first")
      ->check(in_range(1, 4096));
  command.add_option("--timeout", arguments.timeout_s, "Longest wait for the other ranks, seconds")
      ->check(above_zero())
      ->capture_default_str();
}

}  // namespace echelon::app
