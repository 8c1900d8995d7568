#include "comm/mpi/mpi_world.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "bootstrap/hidden_pmix.h"
#include "comm/exchange.h"
#include "comm/local_communicator.h"
#include "comm/mpi/mpi_communicator.h"
#include "comm/mpi/mpi_worker.h"

namespace echelon {
namespace {

/// MPI can be initialized only once per process, so its owner is a process-wide object. It is not destroyed
/// at exit: without finish_mpi() its thread may still be inside MPI.
std::shared_ptr<MpiProcess>& process_slot() {
  static auto* slot = new std::shared_ptr<MpiProcess>();
  return *slot;
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(Job& job, double timeout_s, const ProcessWatch& watch) {
  const JobInfo& info = job.info();
  if (info.size == 1) return std::make_unique<LocalCommunicator>();
  std::shared_ptr<MpiProcess>& process = process_slot();
  if (!process) {
    std::optional<HiddenPmix> hidden;
    if (mpi_connects_first()) hidden.emplace();
    process = std::make_shared<MpiProcess>(timeout_s, watch);
  }
  const int rank = process->worker.rank();
  const int size = process->worker.size();
  if (size == 1 || size != info.size || rank != info.rank) {
    throw Error(Code::kEnvironment,
                size == 1 ? "MPI found no launcher and became a job of its own on every rank: " : "",
                mpi_library_version(), " counts itself rank ", rank, " of ", size, ", PMIx rank ", info.rank,
                " of ", info.size,
                ": MPI must be built with the PMIx of this launcher (srun --mpi=pmix or Open MPI's mpirun)");
  }
  MpiGroup world{.name = "world",
                 .rank = rank,
                 .hosts = info.hosts,
                 .tag = process->next_tag,
                 .timeout_s = timeout_s,
                 .watch = process->watch.get(),
                 .links = process->links};
  for (int member = 0; member < size; ++member) world.world_ranks.push_back(member);
  process->next_tag += kTagsPerGroup;
  if (!process->watch) {
    // The watch over the ranks' processes needs their ids, which only a first communicator can exchange. It
    // uses the tags of `world`; its numbering of operations ends here, on all ranks alike.
    MpiCommunicator first(process, world);
    process->watch =
        std::make_unique<PeerWatch>(gather_values(first, PeerWatch::this_process(), "processes"), rank);
    world.watch = process->watch.get();
  }
  return std::make_unique<MpiCommunicator>(process, std::move(world));
}

void finish_mpi() {
  std::shared_ptr<MpiProcess>& process = process_slot();
  if (!process) return;
  process->worker.finish(30.0);
  process.reset();
}

}  // namespace echelon
