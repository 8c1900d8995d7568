#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/steady_time.h"
#include "comm/communicator.h"
#include "comm/mpi/mpi_world.h"

// One rank of a job in which something goes wrong (comm_failures.cpp): FOLDER SCENARIO DEADLINE_S. The last
// rank misbehaves as the scenario says; every rank writes to FOLDER/rank-R: seconds until its error, the
// error's code and text, and the text of the next operation's error.
namespace {

using namespace echelon;

void operate(Communicator& world, const std::string& scenario, bool last) {
  std::vector<float> data(65536 * static_cast<std::size_t>(world.size()), 1.0F);
  std::vector<float> output(65536);
  if (scenario == "other-operation" && last) {
    world.reduce_scatter(data.data(), DType::kF32, output.data(), 65536, 1.0F, false, "layers.3").wait();
  }
  if (scenario == "other-count") {
    world.all_gather(data.data(), last ? 65535 : 65536, DType::kF32, "layers.3").wait();
  }
  if (scenario == "other-label") world.barrier(last ? "end of epoch" : "end of step");
  if (scenario == "absent" && last) std::this_thread::sleep_for(std::chrono::seconds(5));
  if (scenario == "killed" && last) std::raise(SIGKILL);
  if (scenario == "killed-at-work" && last) {
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      std::raise(SIGKILL);
    }).detach();
  }
  const int rounds = scenario == "killed-at-work" ? 1000000 : 1;
  for (int n = 0; n < rounds; ++n) world.all_gather(data.data(), 65536, DType::kF32, "layers.3").wait();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 99;
  std::signal(SIGTERM, SIG_IGN);  // the launcher's way to stop the others is not what is tested here
  const auto job = bootstrap(Launch::kPmix, 20.0);
  auto world = make_mpi_communicator(*job, std::atof(argv[3]));
  world->barrier("start");
  const bool last = world->rank() == world->size() - 1;
  std::ofstream file(std::string(argv[1]) + "/rank-" + std::to_string(world->rank()));
  const auto start = std::chrono::steady_clock::now();
  try {
    operate(*world, argv[2], last);
    file << "no error" << std::endl;
    return 1;
  } catch (const Error& error) {
    file << seconds_since(start) << "\n" << static_cast<int>(error.code()) << "\n" << error.what() << "\n";
  }
  const auto again = std::chrono::steady_clock::now();
  try {
    world->barrier("after the failure");
    file << "no error" << std::endl;
  } catch (const Error& error) {
    file << error.what() << "\n" << seconds_since(again) << std::endl;
  }
  // Time for the others to find out by themselves, before this exit makes the launcher stop them.
  std::this_thread::sleep_for(std::chrono::milliseconds(argv[2] == std::string("absent") ? 3500 : 700));
  world.reset();
  finish_mpi();
  return 7;  // as a program does that failed; MPI is not finalized then
}
