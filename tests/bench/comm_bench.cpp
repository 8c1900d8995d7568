#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "bootstrap/job.h"
#include "comm/mpi/mpi_communicator.h"

// The CPU collectives beside Open MPI's own, in one run, on the same thread and buffers, alternating:
//   mpirun -n 2 --oversubscribe --bind-to none --mca pml ob1 --mca btl self,vader bin/comm_bench [MiB]
//   [rounds]
// Prints a JSON line for each operation and round: ./make.sh bench comm. MPI has no bf16: it gets the work of
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
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  void on_thread(const std::function<void()>& body) const { process->worker.submit(body).wait(); }

  void compare(const char* name, const std::function<void()>& ours,
               const std::function<void()>& theirs) const {
    for (int round = -2; round < rounds; ++round) {  // two rounds to warm up
      const double a = time(ours);
      const double b = time([&] { on_thread(theirs); });
      if (round >= 0 && world.rank() == 0)
        std::printf("{\"operation\": \"%s\", \"echelon_s\": %.9f, \"mpi_s\": %.9f}\n", name, a, b);
    }
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
      "all_gather_fp32", [&] { world.all_gather(data.data(), count, DType::kF32, "x").wait(); },
      [&] { MPI_Allgather(MPI_IN_PLACE, 0, MPI_FLOAT, data.data(), n, MPI_FLOAT, MPI_COMM_WORLD); });
  bench.compare(
      "reduce_scatter_fp32",
      [&] { world.reduce_scatter(data.data(), DType::kF32, output.data(), count, 0.5F, false, "x").wait(); },
      [&] { MPI_Reduce_scatter_block(data.data(), output.data(), n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
  bench.compare(
      "reduce_scatter_bf16",
      [&] { world.reduce_scatter(data.data(), DType::kBF16, output.data(), count, 0.5F, false, "x").wait(); },
      [&] { MPI_Reduce_scatter_block(data.data(), output.data(), n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
  bench.compare(
      "all_reduce_fp32",
      [&] { world.all_reduce(data.data(), count * size, DType::kF32, ReduceOp::kMax, "x").wait(); },
      [&] {
        MPI_Allreduce(MPI_IN_PLACE, data.data(), n * world.size(), MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
      });
  bench.compare(
      "all_reduce_one", [&] { world.all_reduce(data.data(), 1, DType::kF64, ReduceOp::kMax, "x").wait(); },
      [&] { MPI_Allreduce(MPI_IN_PLACE, data.data(), 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t mib = argc > 1 ? static_cast<std::size_t>(std::atoi(argv[1])) : 64;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  const auto job = bootstrap(Launch::kPmix, 30.0);
  {
    auto process = std::make_shared<MpiProcess>(30.0, ProcessWatch{});
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
