#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "comm/mpi/mpi_world.h"
#include "liveness/life_watch.h"

// One rank of a job whose last rank stops working as the scenario says (life_watch.cpp). Every rank logs to
// FOLDER/rank-R.log and writes what LifeWatch concluded to FOLDER/rank-R.
using namespace echelon;

namespace {

/// A name to be found in the stack.
[[gnu::noinline]] void sleep_without_end() {
  for (volatile bool awake = false; !awake;) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

void operate(Communicator& world, const std::string& scenario, Activity& activity) {
  std::vector<float> data(64 * static_cast<std::size_t>(world.size()), 1.0F);
  const bool last = world.rank() == world.size() - 1;
  for (std::int64_t step = 1;; ++step) {
    activity.begin_step(step);
    activity.enter(Doing::kReadingData);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the heartbeats are to tell of the steps
    if (last && step == 5 && scenario == "asleep") sleep_without_end();
    if (last && step == 5 && scenario == "stopped") std::raise(SIGSTOP);
    activity.enter(Doing::kForward, "layers.3");
    world.all_gather(data.data(), 64, DType::kF32, "layers.3").wait();
    if (scenario == "fine" && step == 20) return;
    activity.end_step(0.01);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 99;
  std::signal(SIGTERM, SIG_IGN);  // the launcher's way to stop the others is not what is tested here
  const std::filesystem::path folder = argv[1];
  const auto job = bootstrap(Launch::kPmix, 20.0);
  const ProcessWatch links;
  auto world = make_mpi_communicator(*job, 20.0, links);
  const std::string rank = "rank-" + std::to_string(world->rank());
  log::init(rank, false, folder / (rank + ".log"));
  ClusterOptions cluster;
  cluster.timeout_s = 2;
  cluster.heartbeat_interval_s = 0.1;
  // Half of it without a sign of all ranks is a node that is lost: more than a busy machine withholds from
  // them.
  cluster.heartbeat_timeout_s = 4;
  auto life = std::make_unique<LifeWatch>(
      LifeWatch::Options{.cluster = cluster, .logs = folder, .on_verdict = {}}, *job, links);
  std::ofstream file(folder / rank);
  try {
    operate(*world, argv[2], *links.activity);
  } catch (const Error& error) {
    const LifeWatch::Conclusion end = life->conclude(error);
    file << static_cast<int>(end.error.code()) << "\n"
         << (end.error.is_reported() ? "" : end.error.what()) << "\n"
         << error.what() << std::endl;
    // Time for the sleeping rank to be ended, before this exit makes the launcher stop it.
    std::this_thread::sleep_for(std::chrono::seconds(world->rank() == 0 ? 4 : 9));
    return 7;
  }
  life.reset();
  world.reset();
  finish_mpi();
  job->finish();
  return 0;
}
