#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bootstrap/job.h"
#include "comm/mpi/mpi_communicator.h"

// The CPU collectives beside Open MPI's own, in one run, on the same thread and buffers, alternating:
//   mpirun -n 2 --oversubscribe --bind-to none --mca pml ob1 --mca btl self,vader bin/comm_bench [MiB]
//   [rounds]
// Prints medians and the ratio ours / MPI's (below 1: ours is faster). MPI has no bf16: it gets the work of
// the same bytes (all-gather) or the same elements in fp32 (reduce-scatter), which is what a caller without
// ours would send.
namespace {

using namespace echelon;
using Clock = std::chrono::steady_clock;

struct Bench {
  std::shared_ptr<MpiProcess> process;
  MpiCommunicator& world;
  int rounds;

  double time(const std::function<void()>& body) const {
    world.barrier("bench");
    const auto start = Clock::now();
    body();
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }
  void on_thread(const std::function<void()>& body) const { process->worker.submit(body).wait(); }

  void compare(const char* name, const std::function<void()>& ours,
               const std::function<void()>& theirs) const {
    std::vector<double> our_ms;
    std::vector<double> their_ms;
    for (int round = -2; round < rounds; ++round) {  // two rounds to warm up
      const double a = time(ours);
      const double b = time([&] { on_thread(theirs); });
      if (round < 0) continue;
      our_ms.push_back(a);
      their_ms.push_back(b);
    }
    const auto median = [](std::vector<double>& values) {
      std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                       values.end());
      return values[values.size() / 2];
    };
    if (world.rank() != 0) return;
    const double a = median(our_ms);
    const double b = median(their_ms);
    std::printf("%-28s ours %9.3f ms (least %9.3f)  MPI %9.3f ms (least %9.3f)  ratio %.2f\n", name, a,
                *std::min_element(our_ms.begin(), our_ms.end()), b,
                *std::min_element(their_ms.begin(), their_ms.end()), a / b);
  }
};

void run(const Bench& bench, std::size_t bytes) {
  Communicator& world = bench.world;
  const auto size = static_cast<std::size_t>(world.size());
  const std::size_t count = bytes / 4 / size;
  std::vector<float> data(count * size, 1.0F);
  std::vector<float> output(count);
  const int n = static_cast<int>(count);
  bench.compare(
      "all-gather fp32", [&] { world.all_gather(data.data(), count, DType::kF32, "x").wait(); },
      [&] { MPI_Allgather(MPI_IN_PLACE, 0, MPI_FLOAT, data.data(), n, MPI_FLOAT, MPI_COMM_WORLD); });
  bench.compare(
      "reduce-scatter fp32",
      [&] { world.reduce_scatter(data.data(), DType::kF32, output.data(), count, 0.5F, false, "x").wait(); },
      [&] { MPI_Reduce_scatter_block(data.data(), output.data(), n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
  bench.compare(
      "reduce-scatter bf16",
      [&] { world.reduce_scatter(data.data(), DType::kBF16, output.data(), count, 0.5F, false, "x").wait(); },
      [&] { MPI_Reduce_scatter_block(data.data(), output.data(), n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
  bench.compare(
      "all-reduce fp32",
      [&] { world.all_reduce(data.data(), count * size, DType::kF32, ReduceOp::kMax, "x").wait(); },
      [&] {
        MPI_Allreduce(MPI_IN_PLACE, data.data(), n * world.size(), MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
      });
  bench.compare(
      "all-reduce of one fp64",
      [&] { world.all_reduce(data.data(), 1, DType::kF64, ReduceOp::kMax, "x").wait(); },
      [&] { MPI_Allreduce(MPI_IN_PLACE, data.data(), 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t mib = argc > 1 ? static_cast<std::size_t>(std::atoi(argv[1])) : 64;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  const auto job = bootstrap(Launch::kPmix, 30.0);
  {
    auto process = std::make_shared<MpiProcess>(30.0);
    MpiGroup group{
        .name = "world", .rank = process->worker.rank(), .hosts = job->info().hosts, .timeout_s = 60.0};
    for (int rank = 0; rank < process->worker.size(); ++rank) group.world_ranks.push_back(rank);
    MpiCommunicator world(process, std::move(group));
    run({.process = process, .world = world, .rounds = rounds}, mib << 20);
    process->worker.finish(30.0);
  }
  job->finish();
  return 0;
}
