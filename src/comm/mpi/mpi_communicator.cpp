#include "comm/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "bootstrap/hidden_pmix.h"
#include "comm/exchange.h"
#include "comm/local_communicator.h"
#include "comm/mpi/mpi_collectives.h"
#include "comm/payload.h"

namespace echelon {
namespace {

// The MPI standard guarantees tags only up to 32767 (MPI_TAG_UB).
constexpr int kTagsPerGroup = 3;
constexpr int kLastTag = 32767;

SpanKind span_kind(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllGather:
      return SpanKind::kGather;
    case OperationKind::kReduceScatter:
    case OperationKind::kAllReduce:
      return SpanKind::kReduce;
    case OperationKind::kBroadcast:
    case OperationKind::kGatherBlobs:
    case OperationKind::kBarrier:
      break;
  }
  return SpanKind::kExchange;
}

/// Of a collective that has just ended.
Span span_of(const Operation& operation, const MpiGroup& group, double issued_s, double began_s) {
  Span span{.begin_s = began_s,
            .end_s = steady_now_s(),
            .issued_s = issued_s,
            .bytes = payload_bytes(operation.kind, operation.count, operation.type, group.rank, group.size()),
            .kind = span_kind(operation.kind)};
  span.name(std::string_view(operation.label, strnlen(operation.label, sizeof(operation.label))));
  return span;
}

}  // namespace

struct MpiCommunicator::Shared {
  explicit Shared(std::shared_ptr<Activity> activity) : history(std::move(activity)) {}
  MpiGroup group;
  History history;
};

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiProcess> process, MpiGroup group)
    : Communicator(group.rank, group.size()),
      process_(std::move(process)),
      shared_(std::make_shared<Shared>(process_->told.activity)) {
  group.outgoing.resize(group.world_ranks.size());
  group.incoming.resize(group.world_ranks.size());
  group.sent = &process_->sent;
  shared_->group = std::move(group);
}

MpiCommunicator::~MpiCommunicator() {
  try {
    process_->worker.submit([] {}).wait();
  } catch (...) {
    // Communication has failed: whoever waited for an operation has the error already.
  }
}

template <class Run>
Pending MpiCommunicator::issue(Operation operation, Run run) {
  operation.sequence = next_sequence_++;
  shared_->history.issued(operation);
  const double issued_s = shared_->history.spans() != nullptr ? steady_now_s() : 0;
  // The task holds `shared_`: it may still run when this communicator is destroyed after a failure.
  return process_->worker.submit([shared = shared_, operation, issued_s, run = std::move(run)] {
    const double began_s = issued_s > 0 ? steady_now_s() : 0;
    run(shared->group, operation);
    shared->history.done(operation.sequence);
    SpanLog* log = shared->history.spans();
    if (log != nullptr && issued_s > 0) log->add(span_of(operation, shared->group, issued_s, began_s));
  });
}

std::function<std::byte*(std::size_t)> MpiCommunicator::staging() const {
  return [worker = &process_->worker](std::size_t bytes) { return worker->staging(bytes); };
}

Pending MpiCommunicator::all_gather(void* buffer, std::size_t count, DType type, std::string_view label) {
  return issue(
      make_operation(OperationKind::kAllGather, count, type, label),
      [buffer](MpiGroup& group, const Operation& operation) { mpi_all_gather(group, operation, buffer); });
}

Pending MpiCommunicator::reduce_scatter(void* input, DType in_type, float* output, std::size_t count,
                                        float scale, bool accumulate, std::string_view label) {
  if (in_type != DType::kF32 && in_type != DType::kBF16 && in_type != DType::kF16) {
    throw Error(Code::kUsage,
                str("reduce-scatter '", label, "' of ", name_of(in_type), ", expected fp32, bf16 or fp16"));
  }
  return issue(make_operation(OperationKind::kReduceScatter, count, in_type, label),
               [=, staging = staging()](MpiGroup& group, const Operation& operation) {
                 mpi_reduce_scatter(group, operation, input, output, scale, accumulate, staging);
               });
}

Pending MpiCommunicator::all_reduce(void* data, std::size_t count, DType type, ReduceOp op,
                                    std::string_view label) {
  if (type != DType::kF32 && type != DType::kF64 && type != DType::kI64) {
    throw Error(Code::kUsage,
                str("all-reduce '", label, "' of ", name_of(type), ", expected fp32, fp64 or int64"));
  }
  Operation operation = make_operation(OperationKind::kAllReduce, count, type, label);
  operation.op = op;
  return issue(operation, [data, staging = staging()](MpiGroup& group, const Operation& issued) {
    mpi_all_reduce(group, issued, data, staging);
  });
}

Pending MpiCommunicator::broadcast(void* data, std::size_t bytes, int root, std::string_view label) {
  if (root < 0 || root >= size()) {
    throw Error(Code::kUsage, str("broadcast '", label, "' from rank ", root, " in a group of ", size()));
  }
  Operation operation = make_operation(OperationKind::kBroadcast, bytes, DType::kU8, label);
  operation.root = root;
  return issue(operation,
               [data](MpiGroup& group, const Operation& issued) { mpi_broadcast(group, issued, data); });
}

std::vector<Blob> MpiCommunicator::gather_blobs(const Blob& mine, std::string_view label) {
  Operation operation = make_operation(OperationKind::kGatherBlobs, 0, DType::kU8, label);
  operation.blob_bytes = mine.size();
  std::vector<Blob> all(static_cast<std::size_t>(size()));
  issue(operation, [&](MpiGroup& group, const Operation& issued) {
    mpi_gather_blobs(group, issued, mine, all);
  }).wait();
  return all;
}

void MpiCommunicator::barrier(std::string_view label) {
  issue(make_operation(OperationKind::kBarrier, 0, DType::kU8, label), [](MpiGroup& group,
                                                                          const Operation& operation) {
    mpi_barrier(group, operation);
  }).wait();
}

std::unique_ptr<Communicator> MpiCommunicator::split(const ColorOf& color_of) {
  const MpiGroup& parent = shared_->group;
  // All ranks of the parent take the largest of their next free tags. Groups of different colors can share
  // the tags, because they share no rank. Separate tags on MPI_COMM_WORLD replace MPI_Comm_split, whose
  // blocking calls have no deadline.
  const std::vector<int> next_tags = gather_values(*this, process_->next_tag, "split");
  const int tag = *std::max_element(next_tags.begin(), next_tags.end());
  process_->next_tag = tag + kTagsPerGroup;
  if (process_->next_tag > kLastTag) {
    throw Error(Code::kUsage, str("group '", parent.name, "' cannot be split: ", kLastTag / kTagsPerGroup,
                                  " groups is the most one process can make"));
  }
  MpiGroup group{.name = str(parent.name, "/", splits_++, ".", color_of(rank())),
                 .tag = tag,
                 .timeout_s = parent.timeout_s,
                 .watch = parent.watch,
                 .awaited = parent.awaited,
                 .failure = parent.failure};
  for (const int member : members(color_of)) {
    if (member == rank()) group.rank = static_cast<int>(group.world_ranks.size());
    group.world_ranks.push_back(parent.world_ranks[static_cast<std::size_t>(member)]);
    group.hosts.push_back(parent.hosts[static_cast<std::size_t>(member)]);
  }
  if (group.size() == 1) return std::make_unique<LocalCommunicator>();
  return std::make_unique<MpiCommunicator>(process_, std::move(group));
}

std::vector<std::string> MpiCommunicator::recent() const {
  return shared_->history.recent();
}

namespace {

/// MPI can be initialised only once per process, so its owner is a process-wide object. It is not destroyed
/// at exit: without finish_mpi() its thread may still be inside MPI.
std::shared_ptr<MpiProcess>& process_slot() {
  static auto* slot = new std::shared_ptr<MpiProcess>();
  return *slot;
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(Job& job, double timeout_s) {
  return make_mpi_communicator(job, timeout_s, {});
}

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
    throw Error(
        Code::kEnvironment,
        str(size == 1 ? "MPI found no launcher and became a job of its own on every rank: " : "",
            mpi_library_version(), " counts itself rank ", rank, " of ", size, ", PMIx rank ", info.rank,
            " of ", info.size,
            ": MPI must be built with the PMIx of this launcher (srun --mpi=pmix or Open MPI's mpirun)"));
  }
  MpiGroup world{.name = "world",
                 .rank = rank,
                 .hosts = info.hosts,
                 .tag = process->next_tag,
                 .timeout_s = timeout_s,
                 .watch = process->watch.get(),
                 .awaited = process->told.awaited.get(),
                 .failure = process->told.failure.get()};
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
