#include "comm/mpi/mpi_communicator.h"

#include <algorithm>

#include "base/error.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "comm/exchange.h"
#include "comm/local_communicator.h"
#include "comm/mpi/mpi_collectives.h"
#include "comm/payload.h"

namespace echelon {
namespace {

// The MPI standard guarantees tags only up to 32767 (MPI_TAG_UB).
constexpr int kLastTag = 32767;

SpanKind span_kind(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllGather: return SpanKind::kGather;
    case OperationKind::kReduceScatter:
    case OperationKind::kAllReduce: return SpanKind::kReduce;
    case OperationKind::kGatherBlobs:
    case OperationKind::kBarrier: break;
  }
  return SpanKind::kExchange;
}

/// The span of a collective that has just ended.
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
      shared_(std::make_shared<Shared>(process_->links.activity)) {
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

Pending MpiCommunicator::all_gather(void* buffer, std::size_t count, DType type, std::string_view label) {
  return issue(
      make_operation(OperationKind::kAllGather, count, type, label),
      [buffer](MpiGroup& group, const Operation& operation) { mpi_all_gather(group, operation, buffer); });
}

Pending MpiCommunicator::reduce_scatter(void* input, DType in_type, float* output, std::size_t count,
                                        float scale, bool accumulate, std::string_view label) {
  return issue(make_operation(OperationKind::kReduceScatter, count, in_type, label),
               [=, worker = &process_->worker](MpiGroup& group, const Operation& operation) {
                 mpi_reduce_scatter(group, operation, input, output, scale, accumulate, *worker);
               });
}

Pending MpiCommunicator::all_reduce(void* data, std::size_t count, DType type, ReduceOp op,
                                    std::string_view label) {
  Operation operation = make_operation(OperationKind::kAllReduce, count, type, label);
  operation.op = op;
  return issue(operation, [data, worker = &process_->worker](MpiGroup& group, const Operation& issued) {
    mpi_all_reduce(group, issued, data, *worker);
  });
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
  const int tag = *std::ranges::max_element(next_tags);
  process_->next_tag = tag + kTagsPerGroup;
  if (process_->next_tag > kLastTag) {
    throw Error(Code::kUsage, "group '", parent.name, "' cannot be split: ", kLastTag / kTagsPerGroup,
                " groups is the most one process can make");
  }
  MpiGroup group{.name = str(parent.name, "/", splits_++, ".", color_of(rank())),
                 .tag = tag,
                 .timeout_s = parent.timeout_s,
                 .watch = parent.watch,
                 .links = parent.links};
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

}  // namespace echelon
